"""What holds for every test, and what the summary says beside passed and failed."""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.parts import NOT_RUN
from tests.trials import SOAK

from standfast.models import weights

if importlib.util.find_spec("hypothesis") is not None:  # some environments have what their tests need, and no more
    import hypothesis

    # The same examples each time, on a machine of any speed; `make soak` tries others.
    hypothesis.settings.register_profile(
        "standfast",
        deadline=None,
        derandomize=not SOAK,
        suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large],
    )
    hypothesis.settings.load_profile("standfast")


class AtOnce:
    """A soak takes an hour: what fails is told when it does, not at the end."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        reporter: Any = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and reporter is not None:
            reporter.write_line(f"\nFAILED {report.nodeid}\n{report.longreprtext}")


def heed_ctrl_c() -> None:
    """A shell lets its background jobs ignore SIGINT, and they their children: not those that tests send Ctrl-C to."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def trust_nobody() -> None:
    """No test asks anybody outside, and to read the machine's hundred certificates takes every client 20 ms."""
    os.environ["SSL_CERT_FILE"] = str(Path(__file__).parent / "providers" / "nobody.pem")


def pytest_configure(config: pytest.Config) -> None:
    """Who asks for an event loop where none is running gets an error, not a new loop that nobody closes.

    The next `asyncio.run` drops such a loop, and the garbage collector's ResourceWarning makes a test red that
    has nothing to do with it.
    """
    asyncio.set_event_loop(None)
    heed_ctrl_c()
    trust_nobody()
    if os.environ.get("STANDFAST_SOAK"):
        config.pluginmanager.register(AtOnce(config))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Modules, tests and what they hold stay until the end: who looks for garbage need not look there each time."""
    gc.freeze()


@pytest.fixture(autouse=True)
def no_callbacks_of_the_collector() -> Iterator[None]:
    """An exception thrown into a thread may land in one (hypothesis has one), where Python can only warn of it."""
    callbacks = list(gc.callbacks)
    gc.callbacks.clear()
    yield
    gc.callbacks[:] = callbacks


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests of the real small model are skipped by its name without it; where tools are required, they fail."""
    if item.get_closest_marker("local_model") is None:
        return
    lacking = "xllamacpp" if importlib.util.find_spec("xllamacpp") is None else "its weights"
    if lacking != "xllamacpp" and weights.installed() is not None:
        return
    reason = f"local model: {lacking} not installed (standfast model install)"
    (pytest.fail if os.environ.get("STANDFAST_REQUIRE_TOOLS") else pytest.skip)(reason)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The mutants' score, gathered from all workers, and what was not run: a line a reason."""
    skipped = Counter(reason_of(report) for report in terminalreporter.stats.get("skipped", ()))
    for reason, count in sorted(skipped.items()):
        terminalreporter.write_line(f"{NOT_RUN}{count} x {reason}")
    reports = [r for kind in ("passed", "failed") for r in terminalreporter.stats.get(kind, ())]
    scores = [value for r in reports for name, value in getattr(r, "user_properties", ()) if name == "mutant"]
    if scores:
        terminalreporter.write_line(f"{scores.count('caught')} of {len(scores)} mutants caught")


def reason_of(report: Any) -> str:
    """Why a test was skipped."""
    why = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return why.removeprefix("Skipped: ")
