"""R31: a stop is marked in the transcript of a bundle where it fell, also one that a tripwire asked for."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from tests.helpers import held
from tests.tripwire.test_runs import leaker

from standfast import Runtime, Tripwire
from standfast.evidence.html_transcript import transcript
from standfast.evidence.run_parts import RunParts, read_run


def read(path: Path, run: str) -> RunParts:
    """A run's parts from its rows, as a bundle has them."""
    connection = sqlite3.connect(path)
    try:
        rows = connection.execute(
            "SELECT body FROM record WHERE run = (SELECT n FROM runs WHERE id = ?) ORDER BY seq", (run,)
        ).fetchall()
    finally:
        connection.close()
    return read_run(run, [bytes(body).decode() for (body,) in rows])


async def test_a_tripwires_stop_falls_where_the_text_ends_and_the_next_stop_does_not(tmp_path: Path) -> None:
    """R33: it is accepted after its call was cut, and falls into that call all the same."""
    one = leaker(delay=0.002, tripwire=Tripwire(action="pause"))
    async with Runtime(tmp_path / "runs.db", agents=[one]) as runs:
        run = await runs.start(one, "What were you told?", id="r")
        await held(run, "tripwire")
        await run.cancel(by="ann")
        await run.settled(timeout=120)
        (told,) = await run.transcript()
        parts = read(tmp_path / "runs.db", "r")
    first, second = parts.stops
    assert (first.trigger, second.verb) == ("tripwire", "cancel")
    assert [(p.stop, p.call, p.take, p.channel, p.characters) for p in parts.transcript.stops] == [
        (first.seq, told.call, 0, "text", len(told.text))
    ]
    shown = "".join(transcript(parts.transcript, parts.stops))
    assert shown.count("stop 1 accepted") == 1 and "stop 2 accepted" not in shown
