"""A redirect that was not read is red on a terminal with colours; the words say it everywhere (R40)."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from tests.helpers import eventually
from tests.mail.world import Task, World, think

from standfast import Done, Run, Runtime, agent

RED, PLAIN = "\x1b[31m", "\x1b[0m"


@agent("hasty")
async def hasty(run: Run[Task]) -> Done[str]:
    """Ends without reading what it was sent."""
    await run.call(think("hasty"))
    return Done("as planned")


@pytest.fixture
async def store(tmp_path: Path) -> Path:
    """A store with one run, ended, that has left a redirect unread."""
    world = World()
    async with Runtime(tmp_path / "runs.db", [hasty], provide={World: world}) as runs:
        run = await runs.start(hasty, Task(), id="r1")
        await eventually(lambda: world.log)
        assert await run.redirect("something \x1b[32melse")
        await eventually(lambda: world.log.count("think hasty") == 2)
        world.open.set()
        await run.result(timeout=120)
    return tmp_path / "runs.db"


def on_a_terminal(*words: str, **env: str) -> str:
    """What a command writes to a terminal of its own."""
    ours, theirs = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    command = [sys.executable, "-m", "standfast.cli", *words]
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env={**kept, "TERM": "xterm-256color", **env}
    )
    os.close(theirs)
    drawn = b""
    try:
        while chunk := os.read(ours, 65536):
            drawn += chunk
    except OSError:
        pass  # Linux says so when the last writer has gone
    finally:
        os.close(ours)
    assert process.wait(60) == 0, drawn
    return drawn.decode().replace("\r\n", "\n")


@pytest.mark.parametrize(("command", "lines"), [(("show", "r1"), 2), (("ps",), 1), (("receipt", "r1"), 1)])
async def test_it_is_red_on_a_terminal_and_plain_where_nobody_wants_colours(
    store: Path, command: tuple[str, ...], lines: int
) -> None:
    words = (*command, "--store", str(store))
    shown = on_a_terminal(*words)
    red = [line for line in shown.split("\n") if RED in line]
    assert len(red) == lines and all("not read" in line.partition(RED)[2] for line in red), shown
    assert all(line.endswith(PLAIN) for line in red)
    assert "\x1b[32m" not in shown  # whoever wrote the redirect steers nothing
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        plain = on_a_terminal(*words, **env)
        assert "\x1b" not in plain and "not read" in plain
    piped = subprocess.run([sys.executable, "-m", "standfast.cli", *words], capture_output=True, text=True, check=True)
    assert "\x1b" not in piped.stdout and "not read" in piped.stdout


async def test_in_the_list_only_the_remark_is_red(store: Path) -> None:
    (line,) = [one for one in on_a_terminal("ps", "--store", str(store)).split("\n") if RED in one]
    before, _, after = line.partition(RED)
    assert "done" in before and "r1" in before and after.startswith("redirect “something ")
