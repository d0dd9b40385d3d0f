"""What holds for every test, and what the summary says beside passed and failed."""

from __future__ import annotations

import asyncio
import importlib.util
import os
from typing import Any

import pytest

from standfast.models import weights


class AtOnce:
    """A soak takes an hour: what fails is told when it does, not at the end."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        reporter: Any = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and reporter is not None:
            reporter.write_line(f"\nFAILED {report.nodeid}\n{report.longreprtext}")


def pytest_configure(config: pytest.Config) -> None:
    """Who asks for an event loop where none is running gets an error, not a new loop that nobody closes.

    The next `asyncio.run` drops such a loop, and the garbage collector's ResourceWarning makes a test red that
    has nothing to do with it.
    """
    asyncio.set_event_loop(None)
    if os.environ.get("STANDFAST_SOAK"):
        config.pluginmanager.register(AtOnce(config))


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
    """The mutants' score, gathered from all workers, and why a test that passed had to be tried again."""
    for rerun in terminalreporter.stats.get("rerun", ()):
        why = [line for line in rerun.longreprtext.splitlines() if line.startswith("E ")] or [rerun.longreprtext[-500:]]
        terminalreporter.write_line("\n".join([f"rerun: {rerun.nodeid}", *why[:20]]))
    reports = [r for kind in ("passed", "failed") for r in terminalreporter.stats.get(kind, ())]
    scores = [value for r in reports for name, value in getattr(r, "user_properties", ()) if name == "mutant"]
    if scores:
        terminalreporter.write_line(f"{scores.count('caught')} of {len(scores)} mutants caught")
