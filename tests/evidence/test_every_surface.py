"""A name that no token proves is called claimed wherever people read it (R31, R32): all is done once, and all read."""

from __future__ import annotations

import ast
import dataclasses
import io
import re
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel
from tests.evidence.bundling import parts_of
from tests.helpers import eventually, held

import standfast
from standfast import CallDenied, Chat, Done, Idle, LLMAgent, Log, Refused, Run, Runtime, RunView, ask, models, tool
from standfast import events as ev
from standfast.cli.pages import event_line, receipt_page, run_page, run_table
from standfast.cli.screens import PlainScreen
from standfast.cli.stop_pages import client_words, stops_page
from standfast.cli.story import Story
from standfast.cli.tokens import house_line
from standfast.events import Event
from standfast.evidence.notary import Notary
from standfast.house_events import plain_house
from standfast.records import Accepted, ClientReach, Moment
from standfast.stop_records import Reached
from standfast.ways import ByToken

NAME = "judge"
WAYS = [ByToken("POST /api/runs/r/verb", "tk-1"), "POST /api/runs/r/verb"]
both = pytest.mark.parametrize("way", WAYS, ids=["a token was shown", "somebody typed it"])


def agreed(way: str, line: str) -> None:
    """Each mention of the name says whether it is proved or claimed; alike."""
    for found in re.finditer(NAME, line):
        before, after = line[: found.start()], line[found.end() :]
        claimed = before.endswith("claimed by ") or after.startswith(" (claimed)")
        assert claimed == (not isinstance(way, ByToken)), line


def agreed_in(way: str, lines: list[str]) -> None:
    named = [line for line in lines if NAME in line]
    assert named, lines
    for line in named:
        agreed(way, line)


class Desk(BaseModel):
    note: str = ""
    heard: Log[str] = Log()


@tool(effect="read")
async def look(at: str) -> str:
    return f"{at} is there"


@tool(confirm=True)
async def pay(to: str) -> None:
    raise AssertionError("never allowed")


@standfast.agent("desk", tools=[look])
async def desk(run: Run[Desk]) -> Done[None] | Idle | None:
    """Asks, wants to pay, and then waits for mail."""
    run.take_redirects()
    for message in run.take_messages():
        run.state.heard.append(message.text)
    if run.step == 0:
        await run.call(ask("Go on?"))
        return None
    if run.step == 1:
        try:
            await run.call(pay("bob"))
        except CallDenied:
            return None
    return Idle()


def texts_of(view: RunView) -> list[str]:
    """What a view says in words; its fields `by` and `by_token` are for programs."""
    return [
        *(view.waiting_for, view.changed, view.error, *view.not_read, *view.child_needs.values()),
        *(view.consequences.pause, view.consequences.redirect, view.consequences.cancel),
        *(need.words for need in view.needs),
        *(mail.disposition for mail in view.mail),
        *run_page(view),
        *run_table([view]),
    ]


async def everything_done(runs: Runtime, way: str, report: Path) -> list[str]:
    """One run to which everything is done by one name; all that is said of it, line by line."""
    lines: list[str] = []
    run = await runs.start(desk, Desk(), id="r", by=NAME, route=way)
    mine = runs.handle("r", way)

    async def seen() -> RunView:
        view = await run.view()
        lines.extend(texts_of(view))
        return view

    def refused(answer: object) -> None:
        assert isinstance(answer, Refused)
        lines.append(answer.why)

    await mine.answer((await held(run, "asks")).needs[0].call or "", "yes", by=NAME)
    await eventually(lambda: _needs(run, "approval"))
    await mine.deny((await run.view()).needs[0].call or "", "no", by=NAME)
    await held(run, "waiting")
    await mine.message("hello", by=NAME)
    await eventually(lambda: _read(run, 1))
    await held(run, "waiting")
    await mine.pause(by=NAME, reason="wait")
    await seen()
    await mine.edit({"note": "edited"}, by=NAME)
    await mine.redirect("another way", by=NAME)
    await seen()
    await mine.resume(by=NAME)
    await eventually(lambda: _read(run, 2))
    await held(run, "waiting")
    await mine.take_over(by=NAME, reason="let me")
    await seen()
    refused(await run.take_over(by="bob"))
    refused(await run.resume())
    await mine.perform("look", {"at": "it"}, by=NAME, timeout=120)
    await seen()
    await mine.hand_back("so it is", by=NAME)
    await eventually(lambda: _read(run, 4))
    await held(run, "waiting")
    await seen()
    halt = await runs.halt(all=True, reason="leak", by=NAME, route=way)
    await eventually(lambda: _held_by(run, "halted"))
    await seen()
    refused(await run.resume())
    with pytest.raises(standfast.Halted) as error:
        await runs.start(desk, Desk())
    lines.append(str(error.value))
    await runs.lift(halt.id, by=NAME, route=way)
    fork = await mine.fork(by=NAME, id="fork")
    await fork.cancel()
    await mine.rewind(0, by=NAME, reason="again")
    await run.settled(timeout=120)
    await mine.cancel(by=NAME, reason="enough", suspicious=True)
    lines += receipt_page(await run.settled(timeout=120))
    lines += stops_page(await run.stops())
    await seen()
    record = [event async for event in run.events()]
    lines += [line for event in record for line in (*lines_of(event), getattr(event, "why", ""))]
    await run.evidence(report, by="clerk")
    assert await runs.forget("fork")
    assert isinstance(await runs.forget("r", by=NAME, reason="a slip", route=way), Accepted)
    await seen()
    refused(await run.pause())
    refused(await runs.forget("r", by="bob"))
    house = [plain_house(event) for event in runs.read(lambda tx: tx.house())]
    lines += map(house_line, house)
    return lines


def lines_of(event: Event) -> list[str]:
    """An event in the record of commands and terminal, and as it is told while a run goes on."""
    out = io.StringIO()
    Story(PlainScreen(out)).tell(event)
    return [event_line(event), *out.getvalue().splitlines()]


async def _needs(run: Any, kind: str) -> bool:
    return any(need.kind == kind for need in (await run.view()).needs)


async def _read(run: Any, count: int) -> bool:
    return sum(mail.status == "consumed" for mail in (await run.view()).mail) >= count


async def _held_by(run: Any, hold: str) -> bool:
    view = await run.view()
    return view.status == "paused" and hold in view.holds


@both
async def test_every_line_about_somebody_agrees(tmp_path: Path, way: str) -> None:
    async with Runtime(tmp_path / "runs.db", [desk], notary=Notary()) as runs:
        lines = await everything_done(runs, way, tmp_path / "r.zip")
    agreed_in(way, lines)
    said = "\n".join(lines)
    for words in ("was forgotten on", "performed", "handed back", "has it", "halted", "answer=answered"):
        assert any(NAME in line and words in line for line in lines), f"{words!r} is told nowhere:\n{said}"
    report = parts_of(tmp_path / "r.zip")["report.html"].decode()
    proved = f"{NAME} (by their token)"
    assert (proved in report) == isinstance(way, ByToken)
    agreed_in(way, [report.replace(proved, NAME)])


@both
async def test_what_a_model_hears_from_somebody_agrees(tmp_path: Path, way: str) -> None:
    """A person can read it in the state; and the model is not to trust a name that anybody may type."""
    talks = LLMAgent("talks", model=models.scripted("first", "well", "done"), plan=False)
    async with Runtime(tmp_path / "runs.db", [talks]) as runs:
        await runs.halt(all=True, reason="first the message", id="h")
    async with Runtime(tmp_path / "runs.db", [talks]) as runs:
        await runs.lift("h")
        run = await runs.start(talks, Chat(task="count"), id="r")
        await runs.handle("r", way).message("how far?", by=NAME, when="now")
        await run.result(timeout=120)
        agreed_in(way, [str(line) for line in (await run.state()).log])


MADE = [  # what the run above has no occasion for
    ev.CallResolved(call="c", decision="happened", by=NAME),
    ev.FrameAbandoned(frame="f", goal="g", by=NAME, reason="late"),
    ev.MailResent(mail="m", by=NAME, disposition="after this step"),
    ev.VerbNoted(verb="resume", by=NAME, text="taken later"),
    ev.PauseAsked(by=NAME, reason="", trigger="api", status="paused"),
    ev.OutputSuspected(by=NAME, reason="", trigger="button"),
    ev.HandedBack(by=NAME, note="", performed=[{"tool": "look", "by": NAME, "by_token": ""}]),
    ev.MailReceived(
        mail="m", kind="message", text="t", when="now", by=NAME, disposition="", data={"performed": [{"by": NAME}]}
    ),
    ev.RunStarted(agent="a", by=NAME),
    ev.Forked(at_step=1, fork="f", by=NAME),
    ev.ResumeAsked(by=NAME, reason=""),
    ev.StateEdited(by=NAME, reason="", changed="x"),
    ev.RewindAsked(to=0, epoch=1, by=NAME, reason="", trigger="api"),
    ev.CancelAsked(by=NAME, reason="", trigger="api", undo="step", soft=False),
    ev.RunHalted(halt="h", by=NAME, reason="", status="paused"),
    ev.RunLifted(halt="h", by=NAME, reason=""),
    ev.TakenOver(by=NAME, reason="", trigger="api", status="paused"),
    ev.PersonActed(order="o", by=NAME, step=0, tool="t", args={}, call="c"),
    ev.Answered(call="c", answer="denied", by=NAME),
]


@both
@pytest.mark.parametrize("event", MADE, ids=lambda event: event.type)
def test_every_event_that_names_somebody_is_told_so(event: Any, way: str) -> None:
    token = way.token if isinstance(way, ByToken) else ""
    agreed_in(way, lines_of(dataclasses.replace(event, seq=1, by_token=token)))


def test_these_are_all_events_that_name_somebody() -> None:
    kinds = {kind for kind in get_args(get_args(Event)[0]) if any(f.name == "by" for f in dataclasses.fields(kind))}
    assert {type(event) for event in MADE} == kinds
    assert all(issubclass(kind, ev.ByPerson) for kind in kinds), "without a token nobody knows who it was"


@both
def test_whoever_was_connected_is_named_so(way: str) -> None:
    token, now = way.token if isinstance(way, ByToken) else "", Moment(0.0)
    reach = ClientReach(client="client-1", by=NAME, by_token=token, way="page", since=now)
    told = ev.ClientsReached(seq=1, server="s", stop=1, settled=2, clients=[reach])
    reached = Reached(server="s", client="client-1", by=NAME, by_token=token, way="page", since=now)
    agreed_in(way, [*lines_of(told), client_words(reached)])


def test_what_no_person_asked_for_is_nobodys_claim() -> None:
    """A trip is recorded under its own name, which nobody has typed."""
    asked = ev.PauseAsked(by="tripwire", reason="tripwire: it leaks", trigger="tripwire", status="paused")
    for line in lines_of(dataclasses.replace(asked, seq=1)):
        assert "claimed" not in line


ALONE = {  # shown to nobody as they are
    "Ask": "a verb's own arguments, before anything is done",
    "Place": "what was typed after --by",
    "RunDoc": "who began a run, for the runs that it begins: these are told as claimed",
    "Token": "who made a token, for the rights that it passes on",
    "Wish": "what a bundle is asked for with; the bundle lists it as claimed, whatever it says",
}


def test_whatever_keeps_a_name_keeps_whether_it_is_proved() -> None:
    """The next class with a name in it needs its token, or a reason; events have theirs from their base."""
    lacking = {
        one.name
        for file in sorted(Path(standfast.__file__).parent.rglob("*.py"))
        for one in ast.walk(ast.parse(file.read_text()))
        if isinstance(one, ast.ClassDef) and not one.bases
        if (names := fields_of(one)) and "by" in names and "by_token" not in names
    }
    assert lacking == set(ALONE), "these name somebody, and not by which token"


def fields_of(one: ast.ClassDef) -> set[str]:
    return {
        line.target.id for line in one.body if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
    }
