"""R2, R3, R9: a model's call in a process of its own: stopped from here, and killed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.helpers import eventually, held
from tests.models.apis import Api
from tests.models.stops import TOKEN, count_tokens
from tests.programs.talking import Talk, talker
from tests.providers.scenes import Answer, drips, goes_silent, says

from standfast import Accepted, Handle, Runtime

pytestmark = pytest.mark.more  # processes that are started and killed in every test: minutes

PROGRAM = Path(__file__).parents[1] / "programs" / "talking.py"
SLACK = 4.0  # a driver that the machine does not let run reads nothing, and so has nothing to keep
LONG = "token{} " + " " * 600  # few of them fill 4 KB: a busy machine must keep up with what the provider sends


@asynccontextmanager
async def driving(store: Path, api: Api) -> AsyncIterator[subprocess.Popen[str]]:
    """A process that drives the talker."""
    url = api.server.anthropic_url if api.name == "anthropic" else api.server.openai_url
    argv = [sys.executable, str(PROGRAM), str(store), api.name, url]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert await asyncio.to_thread(process.stdout.readline) == "driving\n"
        yield process
    finally:
        process.kill()
        process.communicate()


async def _until_now(run: Handle[Any]) -> AsyncIterator[Any]:
    """The events there are, of a run that nobody drives."""
    last = (await run.view()).seq
    async with aclosing(run.events()) as events:
        async for event in events:
            yield event
            if getattr(event, "seq", 0) >= last:
                return


async def test_a_pause_from_another_process_reads_at_most_three_tokens_more(api: Api, tmp_path: Path) -> None:
    """R3: the driver learns of it in milliseconds, and closes the connection."""
    worst = 0
    async with driving(tmp_path / "runs.db", api), Runtime(tmp_path / "runs.db", drive=False) as runs:
        for trial in range(10):
            exchanges = api.server.exchanges
            exchanges.clear()
            api.server.will(drips(every=1.0, token=TOKEN))
            run = await runs.start("talker", Talk(), id=f"run-{trial}")
            await eventually(lambda: exchanges and len(exchanges[0].tokens) >= 2)  # noqa: B023
            answer = await run.pause()
            accepted = time.monotonic()
            assert isinstance(answer, Accepted)
            assert [call.tool for call in answer.in_flight] == ["test-model"]
            await eventually(lambda: exchanges[0].gone_at)  # noqa: B023
            await held(run, "user")
            [said] = await eventually(run.transcript)  # later, if the driver's loop stood still meanwhile
            assert said.partial
            sent = sum(1 for when, _ in exchanges[0].tokens if when <= accepted)
            worst = max(worst, count_tokens(said.text) - sent)
            assert len(exchanges) == 1
            api.server.will(says("Hi", "."))
            await run.resume()
            assert await run.result(timeout=120) == "Hi."
            assert len(exchanges) == 2
    assert worst <= 3


@pytest.mark.parametrize(
    "answer",
    [drips(every=0.005, token=TOKEN), drips(every=0.02, token=LONG), goes_silent(TOKEN.format(0))],
    ids=["slow", "fast", "silent"],
)
async def test_kill_9_in_mid_stream_loses_a_quarter_of_a_second_at_most(
    api: Api, answer: Answer, tmp_path: Path
) -> None:
    """R2, R9: what came earlier, or filled 4 KB, is in the transcript, as partial; the call is issued again once."""
    async with driving(tmp_path / "runs.db", api) as process:
        api.server.will(answer)
        async with Runtime(tmp_path / "runs.db", drive=False) as runs:
            run = await runs.start("talker", Talk(), id="run")
            await eventually(run.transcript)
            await asyncio.sleep(0.25 + 2 * SLACK)
        process.kill()
        killed = time.monotonic()
        process.wait()
    [exchange] = api.server.exchanges
    await eventually(lambda: exchange.gone_at)
    api.server.will(says("Hi", "."))
    async with Runtime(tmp_path / "runs.db", drive=False) as runs:
        [said] = await runs.handle("run").transcript()
        sizes = [len(e.text) async for e in _until_now(runs.handle("run")) if e.type == "text_flushed"]
    kept = count_tokens(said.text)
    assert said.partial
    assert kept >= 1
    lost = [(when, text) for when, text in exchange.tokens[kept:] if when <= killed]
    if lost:
        assert killed - lost[0][0] <= 0.25 + SLACK
    assert max(sizes) < 4096 + len(LONG) + 90, "text is flushed as soon as there are 4 KB of it"
    async with Runtime(tmp_path / "runs.db", agents=[talker(api.model())]) as runs:
        run = runs.handle("run")
        assert await run.result(timeout=120) == "Hi."
        partial, whole = await run.transcript()
    assert (partial.text, partial.partial) == (said.text, True)
    assert (whole.text, whole.partial) == ("Hi.", False)
    assert len(api.server.exchanges) == 2
