"""`make demo`: a page with agents under way; Ctrl-C leaves everything so that it can go on (R2, R18)."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from tests.helpers import eventually

from standfast import Runtime

pytestmark = pytest.mark.more  # processes that are started and killed in every test: minutes

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 90


class Demo:
    """A demo that is under way."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-u", "-m", "examples.demo", "--no-browser", "--folder", str(folder)]
        environment = os.environ | {"STANDFAST_DEMO_MODEL": "scripted", "STANDFAST_DEMO_PACE": "3"}
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        assert self._process.stdout is not None
        said = ""
        while "http" not in said:
            line = self._process.stdout.readline()
            assert line, f"the demo ended: {(folder / 'server.log').read_text()[-3000:]}"
            said += line
        found = re.search(r"(http://\S+)/#token=(\S+)", said)
        assert found is not None
        self.address, self.token = found.groups()

    def ctrl_c(self) -> int:
        """As a terminal does it: to every process of the group."""
        os.killpg(self._process.pid, signal.SIGINT)
        self._process.communicate(timeout=LIMIT)
        return self._process.returncode

    def kill(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()


async def test_the_demo_shows_a_page_and_goes_on_where_it_was(tmp_path: Path) -> None:
    demo = Demo(tmp_path)
    try:
        asked = urllib.request.Request(demo.address, headers={"Authorization": f"Bearer {demo.token}"})
        with urllib.request.urlopen(asked, timeout=30) as page:
            assert b"standfast" in page.read().lower()
        async with Runtime(tmp_path / "runs.db", drive=False) as runs:
            views = await runs.list()
            assert sorted(view.agent for view in views) == ["churn", "literature"]
            one = runs.handle(next(view.id for view in views if view.agent == "literature"))
            await eventually(lambda: _moved(one), LIMIT)
        assert demo.ctrl_c() == 0
        async with Runtime(tmp_path / "runs.db", drive=False) as runs:
            left = await runs.handle(one.id).view()
            assert left.status in ("queued", "paused", "done"), "released, not lost"
        demo = Demo(tmp_path)
        async with Runtime(tmp_path / "runs.db", drive=False) as runs:
            assert len(await runs.list()) == 2, "no more are begun"
            await eventually(lambda: _driven(runs.handle(one.id)), LIMIT)
        assert demo.ctrl_c() == 0
    finally:
        demo.kill()


async def _moved(run: object) -> bool:
    return (await run.view()).seq > 5  # type: ignore[attr-defined]


async def _driven(run: object) -> bool:
    view = await run.view()  # type: ignore[attr-defined]
    return view.status in ("running", "paused", "done")
