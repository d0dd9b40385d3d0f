"""Runs that think with the real small model stop as the others do, and the processor with them (R3, R4, R6, R9)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from tests.helpers import eventually, held
from tests.models.listening import LONG, STORY, busy

from standfast import Accepted, Done, Handle, Interruption, Run, Runtime, agent, models

pytestmark = pytest.mark.local_model

HALF_A_SECOND = 0.5
IDLE = 0.25  # of a processor


class Telling(BaseModel):
    prompt: str = STORY


seen: list[Interruption | None] = []


@agent("teller")
async def teller(run: Run[Telling]) -> Done[str]:
    seen.append(run.interruption)
    reply = await run.call(models.local(max_tokens=40 if run.interruption else 3000)(run.state.prompt))
    return Done(reply.text)


@pytest.fixture(autouse=True)
def _forget() -> None:
    seen.clear()


async def said(run: Handle[Any]) -> str:
    return "".join(line.text for line in await run.transcript())


async def speaking(run: Handle[Any]) -> None:
    async for event in run.events():
        if type(event).__name__ == "TextDelta":
            return


async def test_a_pause_stops_the_words_and_keeps_them(tmp_path: Path) -> None:
    """R3, R4: within half a second the processor is idle; what was said is kept; resume asks again, once."""
    async with Runtime(tmp_path / "runs.db", agents=[teller]) as runs:
        run = await runs.start(teller, Telling())
        await speaking(run)
        assert isinstance(await run.pause(), Accepted)
        await asyncio.sleep(HALF_A_SECOND)
        assert await busy() < IDLE
        await held(run, "user")
        text = await said(run)
        assert text
        assert await run.resume()
        whole = await run.result(timeout=120)
    assert whole.startswith(text[:20])  # the same question, the same answer
    assert len(seen) == 2
    assert seen[1] is not None
    assert seen[1].text == text


async def test_a_cancel_in_the_middle_of_a_long_prompt_stops_the_reading(tmp_path: Path) -> None:
    """R6: nothing was said yet, and nothing will be."""
    async with Runtime(tmp_path / "runs.db", agents=[teller]) as runs:
        run = await runs.start(teller, Telling(prompt=LONG))
        await eventually(lambda: _in_flight(run))
        await asyncio.sleep(0.5)
        assert await busy(0.3) > 0.02  # it reads
        assert await run.cancel()
        await asyncio.sleep(HALF_A_SECOND)
        assert await busy() < IDLE
        receipt = await asyncio.wait_for(run.settled(), 30)
    assert [c.outcome for c in receipt.in_flight] == ["aborted"]
    assert receipt.calls_after_cancel == 0
    assert receipt.partial_output == ""


async def _in_flight(run: Handle[Any]) -> bool:
    return bool((await run.view()).in_flight)


async def test_a_run_that_is_cancelled_while_another_speaks_never_has_its_turn(tmp_path: Path) -> None:
    async with Runtime(tmp_path / "runs.db", agents=[teller]) as runs:
        one = await runs.start(teller, Telling())
        await speaking(one)
        other = await runs.start(teller, Telling(prompt=LONG))
        await eventually(lambda: _in_flight(other))
        assert await other.cancel()
        receipt = await asyncio.wait_for(other.settled(), 30)
        assert receipt.partial_output == ""
        assert (await one.view()).status == "running"
        await one.cancel()
        await asyncio.wait_for(one.settled(), 30)
        await asyncio.sleep(HALF_A_SECOND)
        assert await busy() < IDLE


async def test_tokens_of_a_cut_answer_are_spent(tmp_path: Path) -> None:
    """R17."""
    async with Runtime(tmp_path / "runs.db", agents=[teller]) as runs:
        run = await runs.start(teller, Telling())
        await speaking(run)
        await run.cancel()
        receipt = await asyncio.wait_for(run.settled(), 30)
    assert receipt.usage.input_tokens > 10
    assert receipt.usage.output_tokens > 0


@pytest.mark.parametrize("damage", ["missing", "damaged"])
async def test_without_its_weights_a_run_waits_for_them(tmp_path: Path, damage: str) -> None:
    """Bad input: paused(error) with what to do; put right, it goes on."""
    path = tmp_path / "weights.gguf"
    if damage == "damaged":
        path.write_bytes(b"<html>not found</html>")
    model = models.local(path, max_tokens=8)

    @agent("talker")
    async def talker(run: Run[Telling]) -> Done[str]:
        return Done((await run.call(model("Hello"))).text)

    async with Runtime(tmp_path / "runs.db", agents=[talker]) as runs:
        run = await runs.start(talker, Telling())
        view = await held(run, "error")
        assert str(path) in view.error
        path.unlink(missing_ok=True)
        found = models.weights.installed()
        assert found is not None
        path.symlink_to(found[0])
        assert await run.resume()
        assert await run.result(timeout=120)
