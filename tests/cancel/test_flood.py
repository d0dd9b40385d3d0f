"""A run that writes without a pause cannot keep verbs from being heard (R34)."""

import asyncio
import subprocess
import sys
from pathlib import Path

from tests.cancel.support import LIMIT, Nothing, cancelled, settled

from standfast import Accepted, Run, Runtime, agent, tool

FLOOD = str(Path(__file__).parent.parent / "programs" / "flood.py")
VERBS = 40


@tool(effect="write")
async def touch(n: int) -> None: ...


@agent("flood", equal_writes=None)  # the same writes in every step are what it is about
async def flood(run: Run[Nothing]) -> None:
    for n in range(10):
        await run.call(touch(n))


async def test_verbs_get_their_turn_beside_a_run_that_never_stops_writing(db: str) -> None:
    """R34: each verb is accepted; the store is never too busy with this process's own writes."""
    async with Runtime(db, agents=[flood]) as runs:
        run = await runs.start(flood, Nothing())
        for n in range(VERBS):
            assert isinstance(await run.message(f"{n}"), Accepted)
        await cancelled(run)


async def test_verbs_of_another_process_get_their_turn_too(db: str) -> None:
    """R34: the same from outside, where only the file's lock is shared."""
    argv = [sys.executable, "-W", "error", FLOOD, db]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert await asyncio.to_thread(process.stdout.readline) == "begun\n", process.communicate()[1]
            async with Runtime(db, drive=False) as runs:
                run = runs.handle("r1")
                for n in range(VERBS):
                    assert isinstance(await run.message(f"{n}"), Accepted)
                assert await run.cancel()
                await settled(run)
            _, err = await asyncio.to_thread(process.communicate, timeout=LIMIT)
            assert err == ""
        finally:
            process.kill()
