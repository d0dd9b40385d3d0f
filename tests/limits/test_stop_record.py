"""What a server remembers of what its clients were handed: at each limit, below it and beyond it (R31, R34)."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from starlette.requests import HTTPConnection
from tests.helpers import eventually
from tests.limits.test_runs import Nothing, waits
from tests.limits.test_server import asked
from tests.stops.test_assembling import numbered, pause, said, span, told
from tests.stops.test_assembling import reach as reach_of

from standfast import Runtime
from standfast import events as ev
from standfast.records import Moment, Span
from standfast.server import handlers, reach, telling
from standfast.server.reach import LONGEST_PROGRAM, Client, Visitor, program_of
from standfast.server.reading import Reader
from standfast.server.telling import Everywhere, Tellings, Told
from standfast.server.wire import encode
from standfast.shapes import stops_from, stops_json
from standfast.stop_records import stop_records

ANN = Visitor("ann", "page")


def _client() -> Client:
    return Client(ANN, "r", 0, time.time)


@pytest.fixture
async def tellings(tmp_path: Path) -> AsyncIterator[Tellings]:
    async with Runtime(tmp_path / "runs.db", [waits], drive=False) as runs:
        reader = Reader(runs)
        one = Tellings(runs, reader)
        yield one
        await one.close()
        reader.close()


def _left_with_text(tellings: Tellings, run: str = "r") -> None:
    client = tellings.enter(ANN, run, 0)
    client.text("c", 1, 0, "text", 0, 5)
    tellings.leave(client)


def test_of_each_client_the_newest_texts_are_known_and_the_others_counted() -> None:
    client = _client()
    for n in range(reach.MOST_TEXTS):
        client.text(f"c{n}", 1, 0, "text", 0, 5)
    assert (len(client.handed().spans), client.handed().left_out) == (reach.MOST_TEXTS, 0)
    client.text("c0", 1, 0, "text", 5, 5)  # known: nothing is left out for it, and it is the newest now
    assert (len(client.handed().spans), client.handed().left_out) == (reach.MOST_TEXTS, 0)
    client.text("one more", 1, 0, "text", 0, 5)
    calls = {span.call for span in client.handed().spans}
    assert (len(calls), client.handed().left_out) == (reach.MOST_TEXTS, 1)
    assert {"c0", "one more"} <= calls and "c1" not in calls


def test_the_times_of_so_many_pieces_are_known_and_of_more_a_stop_says_at_least() -> None:
    client, before = _client(), Moment(0.0)
    for n in range(reach.MOST_TIMES - 1):
        client.text("c", 1, 0, "text", n, 1)
    told = client.reach(client.handed(), before)
    assert (told.after_accepted, told.at_least) == (reach.MOST_TIMES - 1, False)
    for n in range(reach.MOST_TIMES - 1, reach.MOST_TIMES + 1):
        client.text("c", 1, 0, "text", n, 1)
        told = client.reach(client.handed(), before)
        assert (told.after_accepted, told.at_least) == (reach.MOST_TIMES, True), "there may have been more"
    assert client.handed().spans == (Span("c", 1, 0, "text", 0, reach.MOST_TIMES + 1),), "what was handed is exact"


@pytest.mark.parametrize("length", [LONGEST_PROGRAM - 1, LONGEST_PROGRAM, LONGEST_PROGRAM + 1])
def test_what_a_client_calls_itself_is_cut(length: int) -> None:
    headers = [(b"user-agent", b"x" * length)]
    assert len(program_of(HTTPConnection({"type": "http", "headers": headers}))) == min(length, LONGEST_PROGRAM)


async def test_clients_that_have_left_are_remembered_so_many_and_the_others_counted(tellings: Tellings) -> None:
    for n in range(telling.MOST_GONE + 1):
        _left_with_text(tellings)
        known = tellings._known["r"]
        assert len(known.gone) == min(n + 1, telling.MOST_GONE)
        assert known.gone_left_out == max(0, n + 1 - telling.MOST_GONE)


async def test_runs_whose_clients_have_all_left_are_followed_so_many_and_no_more(
    tellings: Tellings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telling, "MOST_LINGERING", 2)
    for run in ("a", "b", "c"):
        _left_with_text(tellings, run)
        assert tellings.lingers(run)
        assert tellings.lingers("a") == (run != "c"), "the one that was left first is let go"
    tellings.enter(ANN, "b", 0)
    assert tellings.lingers("a"), "somebody is at b again, which counts no longer"


async def test_a_stream_of_all_events_knows_its_place_in_so_many_runs(
    tellings: Tellings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telling, "MOST_EVERYWHERE", 2)
    text = Told(1, "text_flushed", b"{}", Span("c", 1, 0, "text", 0, 5))
    with Everywhere(tellings, ANN) as everywhere:
        for run in ("a", "b", "c"):
            everywhere.handed(run, [text])
        assert list(everywhere._clients) == ["b", "c"]
        assert (tellings._known["a"].here, len(tellings._known["a"].gone)) == ({}, 1), "it counts as one that has left"
        assert len(tellings._known["b"].here) == 1


@pytest.mark.parametrize("clients", [1, 2, 3])
async def test_the_record_of_a_stop_names_so_many_clients_and_counts_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clients: int
) -> None:
    monkeypatch.setattr(telling, "MOST_CLIENTS", 2)
    async with Runtime(tmp_path / "runs.db", [waits], drive=False) as runs:
        run = await runs.start(waits, Nothing(), id="r")
        await run.cancel()
        events = [event async for event in run.events()]
        reader = Reader(runs)
        tellings = Tellings(runs, reader)
        for _ in range(clients):
            tellings.enter(ANN, "r", events[-1].seq)
        tellings.notice("r", Told(events[-1].seq, events[-1].type, b"{}"))

        async def written() -> list[ev.ClientsReached]:
            rows = runs.read(lambda tx: tx.record(1, events[-1].seq))
            return [event for _, some in rows for event in some if isinstance(event, ev.ClientsReached)]

        (told,) = await eventually(written)
        assert (len(told.clients), told.left_out) == (min(clients, 2), max(0, clients - 2))
        await tellings.close()
        reader.close()


async def test_requests_are_counted_of_so_many_runs_and_then_any_may_have_been_fetched(
    tellings: Tellings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telling, "MOST_FETCHED", 2)
    for run in ("a", "b", "b"):
        tellings.fetched(run)
    assert [tellings.times_fetched(run) for run in "abc"] == [1, 2, 0]
    tellings.fetched("c")  # one too many: "a" is not counted any more
    assert tellings.times_fetched("a") == 1 and tellings.times_fetched("never asked for") > 0


def test_the_text_that_a_hundred_clients_had_is_in_the_record_of_a_stop_once() -> None:
    """R31: and what each of them had can be cut out of it, to the character."""
    text = "".join(f"{n:07d} " for n in range(50_000))
    ends = [len(text) - 8 * n for n in range(99)]
    clients = [
        *(reach_of(span(end), client=f"client-{n}") for n, end in enumerate(ends)),
        reach_of(span(len(text), len(text) - 5), client="late"),
    ]
    events = numbered(said(text), pause(), ev.RunPaused(holds=["user"]), told(2, 3, *clients))
    (stop,) = stop_records(events)
    *early, late = stop.clients
    assert [stop.text_of(piece) for one in early for piece in one.texts] == [text[:end] for end in ends]
    assert [stop.text_of(piece) for piece in late.texts] == [text[-5:]]
    assert sum(len(one.text) for one in stop.texts) == len(text)
    assert len(encode(stops_json([stop]))) < len(text) + 100_000
    assert stops_from([{k: v for k, v in stops_json([stop])[0].items() if k != "clients_known"}]) == [stop]


@pytest.mark.parametrize("more", [0, 1])
async def test_stops_are_told_in_pages_of_so_many_bytes_and_read_to_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    async with asked(tmp_path) as (runs, client):
        run = await runs.start(waits, Nothing(), id="r")
        for _ in range(3):
            await run.pause(reason="x" * 1_000)
            await run.resume()
        path = "/api/runs/r/stops"
        whole = (await client.get(path)).json()
        sizes = [len(encode(stop)) for stop in whole["stops"]]
        assert (len(sizes), whole["more"]) == (3, False)
        monkeypatch.setattr(handlers, "PAGE_BYTES", sizes[0] + sizes[1] - more)
        first = (await client.get(path)).json()
        assert (first["stops"], first["more"]) == (whole["stops"][: 2 - more], True)
        monkeypatch.setattr(handlers, "PAGE_BYTES", 1)
        pages = [(await client.get(path, params={"after": n})).json() for n in range(4)]
        assert [page["stops"] for page in pages] == [*([one] for one in whole["stops"]), []]
        assert [page["more"] for page in pages] == [True, True, False, False]
