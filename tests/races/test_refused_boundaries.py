"""A redirect that comes between two steps without calls: the later one stands only if the earlier one does (R2, R5)."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from standfast import Done, Idle, Log, Run, Runtime, agent


class Diary(BaseModel):
    log: Log[str] = Log()


def redirect_from_elsewhere(path: Path, run: str) -> None:
    """Another process has redirected the run before this one's loop comes to write anything."""

    async def redirect() -> None:
        async with Runtime(path, drive=False) as runs:
            assert await runs.handle(run).redirect("once more")

    thread = threading.Thread(target=lambda: asyncio.run(redirect()))
    thread.start()
    thread.join()


@pytest.mark.parametrize("end", ["a further step", "Done", "Idle"])
async def test_a_step_after_one_that_was_set_back_is_not_kept(tmp_path: Path, end: str) -> None:
    path, raced = tmp_path / "runs.db", list[str]()

    @agent("diarist")
    async def diarist(run: Run[Diary]) -> Done[list[str]] | Idle | None:
        told = run.take_redirects()
        run.state.log.append(f"{run.step} {' '.join(told)}".strip())
        if run.step == 1 and not raced:
            raced.append(run.id)
            redirect_from_elsewhere(path, run.id)
            return {"Done": Done(["too early"]), "Idle": Idle()}.get(end)  # type: ignore[return-value]
        return Done(list(run.state.log)) if run.step == 3 else None

    async with Runtime(path, agents=[diarist]) as runs:
        run: Any = await runs.start(diarist, Diary())
        assert await run.result(timeout=120) == ["0 once more", "1", "2", "3"]
        assert list((await run.state()).log) == ["0 once more", "1", "2", "3"]
