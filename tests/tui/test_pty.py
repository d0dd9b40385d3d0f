"""`standfast watch` as a shell starts it, on a terminal of its own (R18, R25)."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.helpers import eventually
from tests.server.serving import ROOT
from tests.tui.looking import LONG, slow

from standfast import Runtime

ANSI = re.compile(r"\x1b(\[[0-9;?<>=]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|P[^\x1b]*\x1b\\|[@-_])")


class Terminal:
    """A process that has a terminal of 100 columns and 30 lines, and what it has drawn."""

    def __init__(self, *words: str) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        os.set_blocking(self._ours, False)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("STANDFAST_")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "standfast.cli", *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=ROOT,
            env={**kept, "TERM": "xterm-256color", "COLORTERM": "truecolor"},
            start_new_session=True,
        )
        os.close(theirs)
        self.drawn = ""

    def read(self) -> str:
        """Everything that was drawn so far, without what steers the terminal."""
        try:
            while chunk := os.read(self._ours, 65536):
                self.drawn += chunk.decode(errors="replace")
        except (BlockingIOError, OSError):
            pass  # nothing more now, or it has gone
        return ANSI.sub("", self.drawn)

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(LONG)
        os.close(self._ours)


@contextmanager
def terminal(*words: str) -> Iterator[Terminal]:
    one = Terminal(*words)
    try:
        yield one
    finally:
        one.close()


async def until(look: Callable[[], object]) -> None:
    async def again() -> object:
        return look()

    await eventually(again, LONG)


async def test_watch_on_a_real_terminal_controls_a_run_and_gives_the_terminal_back(
    runs: Runtime, tmp_path: Path
) -> None:
    """R1, R18, R25: the bar is drawn, p pauses, q detaches, and the run is still there."""
    run = await slow(runs)
    with terminal("--store", str(tmp_path / "runs.db"), "watch", run.id) as screen:
        await until(lambda: all(word in screen.read() for word in ("Pause  p", "Redirect  r", "Cancel  x x")))
        assert "Read it aloud" in screen.read()
        screen.type("p")

        async def paused() -> bool:
            return (await run.view()).status == "paused"

        await eventually(paused, LONG)
        assert (await run.settled(timeout=LONG)).trigger == "key"
        await until(lambda: "Resume  p" in screen.read())
        screen.type("q")
        await until(lambda: screen.process.poll() is not None)
        assert screen.process.returncode == 0
        assert f"detached; {run.id} goes on" in screen.read()
        assert "\x1b[?1049l" in screen.drawn, "the terminal is as it was"
    assert (await run.view()).status == "paused"


async def test_watch_without_a_terminal_says_what_works_instead(runs: Runtime, tmp_path: Path) -> None:
    run = await slow(runs)
    told = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "standfast.cli", "--store", str(tmp_path / "runs.db"), "watch", run.id],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        cwd=ROOT,
    )
    assert told.returncode == 1
    assert "watch needs a terminal" in told.stderr
