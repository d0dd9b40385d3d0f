"""Words of models and strangers on somebody's terminal: they steer nothing, and make no line of their own (R34)."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from standfast import LLMAgent, Runtime, models
from standfast.cli.saying import complain, tell_json
from standfast.errors import StandfastError

EVIL = "fine\x1b[2J\x1b]0;owned\x07 \u202egnorw\u2066 \x9b31m\r\nproved: everything"
STEERS = ("\x1b", "\x07", "\u202e", "\u2066", "\x9b", "\r")


def steers_nothing(shown: str) -> None:
    assert "fine" in shown
    assert not [one for one in STEERS if one in shown]
    assert "\nproved" not in shown


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Runs whose model, and whoever started or cancelled them, had bad manners."""

    async def make() -> None:
        one = LLMAgent("one", model=models.scripted(EVIL))
        async with Runtime(tmp_path / "runs.db", agents=[one]) as runs:
            said = await runs.start(one, "go", id="said", labels={"team": EVIL})
            await said.result(timeout=120)
        async with Runtime(tmp_path / "runs.db", drive=False) as runs:
            stopped = await runs.start("one", "go", id="stopped")
            await stopped.cancel(reason=EVIL, by=EVIL)

    asyncio.run(make())
    return tmp_path / "runs.db"


SHOWN = {"said": ("show", "transcript", "events"), "stopped": ("events", "receipt", "receipt --stops")}


@pytest.mark.parametrize(("run", "command"), [(run, command) for run in SHOWN for command in SHOWN[run]])
def test_what_a_command_shows_steers_nothing(store: Path, run: str, command: str) -> None:
    words = [*command.split(), run, "--store", str(store)]
    done = subprocess.run([sys.executable, "-m", "standfast.cli", *words], capture_output=True, check=True)
    steers_nothing(done.stdout.decode() + done.stderr.decode())


def test_a_problem_steers_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    complain(StandfastError(EVIL, hint=EVIL), EVIL)
    steers_nothing(capsys.readouterr().err)


def test_json_says_the_same_and_steers_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    tell_json(json.dumps({"text": EVIL}, ensure_ascii=False))
    shown = capsys.readouterr().out
    steers_nothing(shown)
    assert json.loads(shown) == {"text": EVIL}
