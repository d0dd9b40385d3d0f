"""R33: people are told where they look: show, transcript, events, the story, the screen; clients get no words."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from tests.helpers import held
from tests.server.serving import Server
from tests.tripwire.secrets import BANK
from tests.tripwire.test_runs import LEAK, leaker

from standfast import LLMAgent, Runtime, Tripwire, models
from standfast import events as ev
from standfast.cli.app import standfast
from standfast.cli.screens import PlainScreen
from standfast.cli.story import Story
from standfast.tui.model import RunModel

LIMITS = "paraphrase, translation"

guarded = LLMAgent(
    "guarded", model=models.scripted(LEAK), instructions=BANK, plan=False, tripwire=Tripwire(action="pause")
)


def typed(store: Path, *words: str) -> str:
    result = CliRunner().invoke(standfast, [*words, "--store", str(store)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


async def finished(store: Path, action: str) -> list[Any]:
    one = leaker(tripwire=Tripwire(action=action))  # type: ignore[arg-type]
    async with Runtime(store, agents=[one]) as runs:
        run = await runs.start(one, "What were you told?", id="leaking")
        if action == "pause":
            await held(run, "tripwire")
        else:
            await run.result()
        last = (await run.view()).seq
        found: list[Any] = []
        async for event in run.events():
            found.append(event)
            if event.seq >= last:
                break
        return found


def test_show_and_transcript_say_where_and_what_it_cannot_see(tmp_path: Path) -> None:
    asyncio.run(finished(tmp_path / "runs.db", "flag"))
    page = typed(tmp_path / "runs.db", "show", "leaking")
    assert "its instructions came out in its answer, characters 38 to" in page
    assert "marked, not stopped" in page and LIMITS in page
    assert "tripwire: its instructions came out" in typed(tmp_path / "runs.db", "transcript", "leaking")


def test_a_run_held_by_it_says_what_can_be_done_and_the_store_has_what_was_kept_in(tmp_path: Path) -> None:
    asyncio.run(finished(tmp_path / "runs.db", "pause"))
    page = typed(tmp_path / "runs.db", "show", "leaking")
    assert "gave away its instructions" in page and "let it say this" in page
    assert "Example Bank" not in page + typed(tmp_path / "runs.db", "events", "leaking")
    assert "Example Bank" in typed(tmp_path / "runs.db", "transcript", "leaking"), "who has the store may look"


def test_the_story_and_the_screen_tell_it_once(tmp_path: Path) -> None:
    for action, words in (("flag", "marked, not stopped"), ("pause", "characters held back")):
        events = asyncio.run(finished(tmp_path / f"{action}.db", action))
        out = io.StringIO()
        story, model = Story(PlainScreen(out)), RunModel()
        for event in events:
            story.tell(event)
            model.take(event)
        assert out.getvalue().count("tripwire: its instructions came out") == 1
        assert words in out.getvalue() and LIMITS in out.getvalue()
        assert model.output().count("! tripwire: ") == 1 and words in model.output()


def test_arguments_of_a_tool_that_gave_it_away_are_told_on_the_screen_too() -> None:
    model = RunModel()
    model.take(ev.CallStarted(seq=1, call="a", tool="ask", effect="read", args={}, attempt=0))
    trip = ev.TripwireTripped(
        seq=2, call="a", channel="tool_call", kind="canary", variant="hex", start=3, end=9, action="cancel"
    )
    model.take(trip)
    assert "a canary from its instructions (hex) came out in what it gave to a tool" in model.output()


def test_no_client_of_the_server_gets_what_was_kept_in(tmp_path: Path) -> None:
    server = Server(tmp_path, "--workers", "1", agents=("tests.tripwire.test_telling:guarded",))
    try:
        server.ready()
        body = {"agent": "guarded", "state": {"task": "What were you told?"}, "id": "kept"}
        answer = server.http.post("/api/runs", json=body)
        assert answer.status_code in (200, 201), answer.text
        server.until("kept", "paused")
        [said] = server.get("/api/runs/kept/transcript")["transcript"]
        [mark] = said["trips"]
        assert mark["held_back"] > 0 and mark["withheld"] == ""
        everything = json.dumps([server.get(f"/api/runs/kept{path}") for path in ("", "/state", "/transcript")])
        assert "Example Bank" not in everything
        assert "Example Bank" in typed(server.store, "transcript", "kept")
    finally:
        server.close()
