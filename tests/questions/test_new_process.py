"""Questions, approvals and doubts survive the death of their process (R2, R14, R15)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.helpers import eventually, held

from standfast import Happened, NotHappened, Runtime

SHOP = Path(__file__).parents[1] / "programs" / "shop.py"


@contextmanager
def a_shop(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The shop in a process of its own; killed as by kill -9."""
    shop = subprocess.Popen([sys.executable, str(SHOP), str(folder / "runs.db"), str(folder / "world")])
    try:
        yield shop
    finally:
        shop.kill()
        shop.wait()


async def test_each_can_be_answered_from_a_process_without_the_code_after_a_kill(tmp_path: Path) -> None:
    world = tmp_path / "world"
    async with Runtime(tmp_path / "runs.db", drive=False) as runs:
        with a_shop(tmp_path):
            await eventually(runs.list)
            run = runs.handle("order")
            (need,) = (await held(run, "asks")).needs
        assert (need.text, need.choices) == ("Which size?", ("small", "large"))
        assert await run.choose(need, "large", by="ann")  # nobody drives it now
        assert "a driver with agent shop" in (await run.view()).waiting_for

        with a_shop(tmp_path):
            (need,) = (await held(run, "asks")).needs
            assert need.kind == "approval"
        assert await run.approve(need.call, {"amount": 40}, by="ann")
        assert not world.exists()

        with a_shop(tmp_path):
            await eventually(world.exists)
        with a_shop(tmp_path):
            (need,) = (await held(run, "in_doubt")).needs
            assert need.kind == "doubt"
        assert await run.resolve(need.call, NotHappened(), by="ann")
        with a_shop(tmp_path):
            await eventually(lambda: world.read_text() == "40\n40\n")
        with a_shop(tmp_path):
            (need,) = (await held(run, "in_doubt")).needs
            assert await run.resolve(need.call, Happened("paid 40"), by="ann")
            assert await run.result(timeout=120) == "large: paid 40"
    assert world.read_text() == "40\n40\n"
