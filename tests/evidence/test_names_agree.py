"""A name is proved by the token in the record, or it is claimed: every surface says the same of it (R31, R32)."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.evidence.bundling import parts_of, said, talker
from tests.evidence.world import Letters
from tests.helpers import eventually

from standfast import Done, Handle, Idle, Run, Runtime, agent
from standfast.cli.pages import event_line, receipt_page, run_page
from standfast.cli.stop_pages import stops_page
from standfast.events import RunHalted, decode
from standfast.evidence.notary import Notary
from standfast.halts import halt_doc, in_words
from standfast.rows import HaltRow
from standfast.ways import ByToken

SHOWN = ByToken("POST /api/runs/r/verb", "tk-1")
TYPED = "POST /api/runs/r/verb"  # whoever calls the library may give any text


def lines_with(name: str, *pages: list[str]) -> list[str]:
    return [line for page in pages for line in page if name in line]


def agreed(name: str, way: str, lines: list[str]) -> None:
    """Every line that names them calls the name proved, or every line calls it claimed."""
    assert lines
    claimed = [line for line in lines if f"claimed by {name}" in line or f"{name} (claimed)" in line]
    assert claimed == ([] if isinstance(way, ByToken) else lines)


async def everything_about(run: Handle[int], name: str, bundle: Path) -> list[str]:
    """What commands and terminal say about a run, line by line, and what the report of its evidence does."""
    view = await run.view()
    record = [event_line(event) async for event in run.events()] if view.status in ("cancelled", "done") else []
    receipt = receipt_page(await run.settled(timeout=120))
    lines = lines_with(name, run_page(view), receipt, stops_page(await run.stops()), record)
    await run.evidence(bundle)
    report = parts_of(bundle)["report.html"].decode()
    in_report = "claimed by" if f"{name} (by their token)" not in report else "by"
    return [*lines, f"{in_report} {name}"]


@pytest.mark.parametrize("way", [SHOWN, TYPED], ids=["a token was shown", "somebody typed the way"])
async def test_a_cancel_and_mail_name_somebody_alike_on_every_surface(tmp_path: Path, way: str) -> None:
    async with Runtime(tmp_path / "runs.db", [talker], notary=Notary()) as runs:
        run = await runs.start(talker, Letters(), id="r")
        await said(run, "more to come")
        theirs = runs.handle("r", way)
        await theirs.message("stop soon", by="ann", when="later")
        await theirs.cancel(by="ann", reason="enough")
        agreed("ann", way, await everything_about(run, "ann", tmp_path / "r.zip"))
        assert (await run.view()).mail[-1].by_token == ("tk-1" if isinstance(way, ByToken) else "")


@pytest.mark.parametrize("way", [SHOWN, TYPED, "operator's socket"], ids=["token", "typed", "socket"])
@pytest.mark.parametrize("then", ["pause", "cancel"])
async def test_a_halt_names_somebody_alike_on_every_surface(tmp_path: Path, way: str, then: str) -> None:
    """R13: in the run's record too, which is what evidence is made from."""
    token = "tk-1" if isinstance(way, ByToken) else ""
    async with Runtime(tmp_path / "runs.db", [talker], notary=Notary()) as runs:
        run = await runs.start(talker, Letters(), id="r")
        await said(run, "more to come")
        halt = await runs.halt(all=True, reason="leak", by="ophelia", then=then, route=way)  # type: ignore[arg-type]
        await run.settled(timeout=120)
        (stop,) = await run.stops()
        assert stop.by_token == token
        agreed("ophelia", way, await everything_about(run, "ophelia", tmp_path / "r.zip"))
        assert halt.by_token == (await runs.halts())[0].by_token == token
        assert (await runs.halt(all=True, reason="leak", by="ophelia", then=then, id=halt.id)).note  # type: ignore[arg-type]


@agent("waits")
async def waits(run: Run[Letters]) -> Done[int] | Idle:
    return Done(1) if run.take_messages() else Idle()


async def test_what_is_done_later_keeps_the_token_with_which_it_was_asked_for(tmp_path: Path) -> None:
    """R31: a resume that waits for the lift of a halt, the halt and the lift are each somebody's own."""
    async with Runtime(tmp_path / "runs.db", [waits]) as runs:
        run = await runs.start(waits, Letters(), id="r")
        await eventually(lambda: runs.read(lambda tx: tx.run("r")).status == "paused")  # type: ignore[union-attr]
        await runs.handle("r", SHOWN).take_over(by="ann")
        halt = await runs.halt(all=True, reason="leak", by="ophelia", route=ByToken("POST /api/halts", "tk-2"))
        await runs.handle("r", SHOWN).hand_back("go on", by="ann")
        await runs.lift(halt.id, by="lou", route="POST /api/halts/x/lift")
        await run.result(timeout=60)
        told = {event.type: event for event in [event async for event in run.events()]}
    tokens = {kind: getattr(event, "by_token", "") for kind, event in told.items()}
    assert (tokens["taken_over"], tokens["run_halted"], tokens["run_lifted"]) == ("tk-1", "tk-2", "")
    assert tokens["resume_asked"] == "tk-1", "who handed it back, not who lifted the halt"


def test_what_was_written_before_tokens_were_kept_is_read_and_claimed() -> None:
    """R32: the way that a row names was never a proof."""
    row = HaltRow(id="h", doc=b'{"id": "h", "all": true, "by": "ann", "route": "POST /api/halts", "reason": "leak"}')
    assert in_words(halt_doc(row)) == "leak (claimed by ann)"
    (event,) = decode(
        b'[{"type": "run_halted", "halt": "h", "by": "ann", "route": "POST /", "reason": "", "status": "paused"}]'
    )
    assert isinstance(event, RunHalted)
    assert event.by_token == ""
