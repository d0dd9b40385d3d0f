"""R31, R30: a stop's record holds what each client had been handed, to the character; all of them real."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.providers.scenes import Answer, Say, Wait, drips, goes_silent
from tests.providers.server import LoopbackProvider
from tests.server.serving import ROOT, Server, eventually
from tests.stops.clients import Agui, Listening, page
from tests.tripwire.secrets import BANK

from standfast.shapes import stops_from

pytestmark = pytest.mark.more  # processes that are started and killed in every test: minutes

Serve = Callable[[], Server]
FIRST = "Once upon a time "


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackProvider]:
    with LoopbackProvider() as one:
        monkeypatch.setenv("OPENAI_BASE_URL", one.openai_url)
        monkeypatch.setenv("OPENAI_API_KEY", "test")
        yield one


@pytest.fixture
def server(provider: LoopbackProvider, tmp_path: Path) -> Iterator[Server]:
    one = Server(tmp_path, agents=("tests.programs.streaming:AGENTS",))
    try:
        yield one.ready()
    finally:
        one.close()


def start(server: Server, agent: str = "talker") -> str:
    run = f"s-{uuid.uuid4().hex[:12]}"
    server.post("/api/runs", {"agent": agent, "state": {"task": "Tell me a story"}, "id": run}, status=201)
    return run


def told(server: Server, run: str) -> Any:
    """The one stop, once a server has told of its clients."""

    def look() -> Any:
        (stop,) = server.get(f"/api/runs/{run}/stops")["stops"]
        return stop if stop["clients_known"] else None

    return eventually(look)


def client_of(stop: Any, program: str) -> Any:
    (found,) = [one for one in stop["clients"] if one["program"] == program]
    return found


def pieces_of(stop: Any, program: str) -> list[str]:
    """What a client had, cut out of the texts of the stop."""
    (record,) = stops_from([{key: value for key, value in stop.items() if key != "clients_known"}])
    (client,) = [one for one in record.clients if one.program == program]
    pieces = [piece for piece in client.texts if piece.channel == "text"]
    assert all(hashlib.sha256(record.text_of(piece).encode()).hexdigest() == piece.digest for piece in pieces)
    return [record.text_of(piece) for piece in pieces]


def text_of(stop: Any, program: str) -> str:
    return "".join(pieces_of(stop, program))


def on_the_store(server: Server, *words: str) -> Any:
    """The command line straight on the store, without a server."""
    done = subprocess.run(
        [sys.executable, "-m", "standfast.cli", *words, "--store", str(server.store), "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_the_record_of_a_cancel_holds_exactly_what_each_client_was_given(
    server: Server, provider: LoopbackProvider
) -> None:
    provider.will(Answer(acts=[Say(FIRST), Wait(1.0), *(Say(f"word{n} ") for n in range(10_000))], every=0.01))
    run = start(server)
    listening = Listening(server, f"/api/runs/{run}/events", "listener")
    everything = Listening(server, "/api/events?after=0", "everything", last="run_cancelled")
    with page(server, run, "quick") as quick, page(server, run, "slow") as slow:
        with page(server, run, "left") as left:
            left.until_text(FIRST)
        quick.until_text("word20 ")
        server.post(f"/api/runs/{run}/cancel", {"reason": "enough", "trigger": "button"})
        quick.until("run_cancelled")
        stop = told(server, run)
        slow.until("run_cancelled")  # it begins to read only now: all of it had been handed over
    listening.join(30)
    everything.join(30)
    assert not listening.is_alive() and not everything.is_alive()
    received = {"quick": quick, "slow": slow, "left": left, "listener": listening, "everything": everything}
    assert {one["program"]: text_of(stop, one["program"]) for one in stop["clients"]} == {
        program: heard.text for program, heard in received.items()
    }
    assert text_of(stop, "left") == FIRST
    assert len(quick.text) > len(FIRST)
    assert {one["program"]: one["way"] for one in stop["clients"]} == {
        **dict.fromkeys(("quick", "slow", "left"), "page"),
        "listener": "events",
        "everything": "all_events",
    }
    assert {one["by"] for one in stop["clients"]} == {"operator"}
    assert [one["program"] for one in stop["clients"] if one["left"]] == ["left"]
    assert client_of(stop, "left")["after_accepted"] == 0
    assert (stop["verb"], stop["trigger"], stop["by"], stop["reason"]) == ("cancel", "button", "operator", "enough")
    assert stop["status"] == "cancelled"
    (stream,) = stop["streams"]
    assert stream["outcome"] == "aborted"
    assert stream["characters"]["text"] >= len(quick.text)
    times = [stop["asked"], stop["accepted"], stop["settled"]]
    assert times == sorted(times, key=lambda one: one["uptime"])
    assert stream["last_byte"]["uptime"] < stop["settled"]["uptime"]
    assert client_of(stop, "left")["last_byte"]["uptime"] < stop["accepted"]["uptime"]
    assert {one["boot"] for one in (*times, stream["last_byte"])} == {stop["accepted"]["boot"]} != {None}
    assert server.token not in json.dumps(stop)
    # written once, after the end of the run; who may only view is told no names
    events = server.events(run)
    assert [event["type"] for event in events].count("clients_reached") == 1
    assert events[-1]["type"] == "clients_reached"
    assert (events[-1]["clients"], events[-1]["left_out"]) == ([], 5)
    assert on_the_store(server, "receipt", run, "--stops") == [stop]


def test_what_a_tripwire_held_back_is_in_the_record_by_its_digest_and_with_no_client(
    server: Server, provider: LoopbackProvider
) -> None:
    """R33: the words that gave the instructions away reached nobody, and the record says so."""
    words = f"Of course. {BANK} That is all."
    provider.will(Answer(acts=[*(Say(word + " ") for word in words.split(" ")), Wait()], every=0.02))
    run = start(server, "guarded")
    with page(server, run, "reader") as reader:
        reader.until("run_cancelled")
        stop = told(server, run)
    assert (stop["verb"], stop["trigger"], stop["by"]) == ("cancel", "tripwire", "tripwire")
    assert text_of(stop, "reader") == reader.text
    kept = [one for one in stop["held_back"] if one["why"] == "tripwire"]
    assert kept and len(kept[0]["digest"]) == 64 and kept[0]["characters"] > 0
    (stream,) = stop["streams"]
    assert stream["characters"]["text"] == len(reader.text) + kept[0]["characters"]
    heard = "".join(text for _, text in provider.last.tokens)[: stream["characters"]["text"]]
    assert hashlib.sha256(heard[len(reader.text) :].encode()).hexdigest() == kept[0]["digest"]
    assert stop["trips"][0]["held_back"] == kept[0]["characters"]
    assert kept[0]["start"] == stop["trips"][0]["held_from"] == len(reader.text), "it begins where the text ends"
    assert stop["asked"]["uptime"] <= stop["accepted"]["uptime"]


def test_what_was_fetched_or_read_before_joining_is_not_said_to_have_reached_nobody(
    server: Server, provider: LoopbackProvider
) -> None:
    provider.will(goes_silent(FIRST))
    run = start(server)
    eventually(lambda: FIRST in json.dumps(server.get(f"/api/runs/{run}/transcript")))
    listening = Listening(server, f"/api/runs/{run}/events?after={server.view(run)['seq']}", "late")
    server.post(f"/api/runs/{run}/message", {"text": "are you there?", "when": "later"})
    eventually(lambda: listening.types)  # it is connected
    server.post(f"/api/runs/{run}/cancel")
    stop = told(server, run)
    listening.join(30)
    assert stop["told"][0]["fetched"] > 0
    assert stop["held_back"] == []


def test_an_ag_ui_client_is_in_the_record_with_its_text(server: Server, provider: LoopbackProvider) -> None:
    """R36: what a front end of others was given counts as well."""
    provider.will(drips(every=0.01))
    run = f"s-{uuid.uuid4().hex[:12]}"
    front_end = Agui(server, "talker", run, "Tell me a story", "front end")
    eventually(lambda: "token9 " in front_end.text)
    server.post(f"/api/runs/{run}/cancel")
    front_end.join(30)
    assert not front_end.is_alive()
    stop = told(server, run)
    client = client_of(stop, "front end")
    assert client["way"] == "agui"
    assert text_of(stop, "front end") == front_end.text


def test_every_server_of_a_store_tells_of_its_own_clients(
    server: Server, provider: LoopbackProvider, tmp_path: Path
) -> None:
    provider.will(drips(every=0.02))
    run = start(server)
    other = Server(tmp_path, agents=())  # it looks on, and drives nothing
    try:
        with page(server, run, "here") as here, page(other.ready(), run, "there") as there:
            here.until_text("token9 ")
            there.until_text("token9 ")
            other.post(f"/api/runs/{run}/cancel")
            here.until("run_cancelled")
            there.until("run_cancelled")

            def both() -> Any:
                (stop,) = server.get(f"/api/runs/{run}/stops")["stops"]
                return stop if len(stop["told"]) == 2 else None

            stop = eventually(both)
    finally:
        other.close()
    assert {one["program"]: text_of(stop, one["program"]) for one in stop["clients"]} == {
        "here": here.text,
        "there": there.text,
    }


def test_a_pause_and_a_cancel_each_have_their_record(server: Server, provider: LoopbackProvider) -> None:
    provider.will(goes_silent(FIRST), goes_silent("Again: once "))
    run = start(server)
    with page(server, run, "reader") as reader:
        reader.until_text(FIRST)
        server.post(f"/api/runs/{run}/pause", {"trigger": "key"})
        reader.until("clients_reached")
        (paused,) = [event["seq"] for event in server.events(run) if event["type"] == "run_paused"]
        assert server.view(run)["seq"] > paused
        # what was noted of clients is nothing that happened to the run: who saw it paused may act on that
        server.post(f"/api/runs/{run}/resume", {"if_seq": paused})
        eventually(lambda: provider.last.text == "Again: once ")
        eventually(lambda: "Again" in json.dumps(server.get(f"/api/runs/{run}/transcript")))
        server.post(f"/api/runs/{run}/cancel")
        while reader.types.count("clients_reached") < 2:
            reader.next()
    first, second = server.get(f"/api/runs/{run}/stops")["stops"]
    assert [(one["number"], one["verb"], one["trigger"]) for one in (first, second)] == [
        (1, "pause", "key"),
        (2, "cancel", "api"),
    ]
    assert text_of(first, "reader") == FIRST
    assert text_of(second, "reader") == FIRST + "Again: once ", "both tries, each in its place"
    assert pieces_of(second, "reader") == [FIRST, "Again: once "]


def test_a_server_that_dies_before_it_has_told_leaves_unknown_not_nobody(
    server: Server, provider: LoopbackProvider
) -> None:
    provider.will(drips(every=0.01))
    run = start(server)
    with page(server, run, "reader") as reader:
        reader.until_text("token9 ")
        os.kill(server.process.pid, signal.SIGSTOP)  # the control process tells; the worker goes on and settles
        on_the_store(server, "cancel", run, "--reason", "by hand", "--wait")
        server.kill()
    (stop,) = on_the_store(server, "receipt", run, "--stops")
    assert stop["status"] == "cancelled"
    assert (stop["trigger"], stop["reason"]) == ("terminal", "by hand")
    assert stop["asked"]["uptime"] is not None
    assert (stop["clients_known"], stop["clients"], stop["told"]) == (False, [], [])
    assert stop["held_back"] == [], "nothing is claimed of clients that nobody told of"
    assert stop["streams"][0]["last_byte"]["uptime"] is not None
    shown = subprocess.run(
        [sys.executable, "-m", "standfast.cli", "receipt", run, "--stops", "--store", str(server.store)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "unknown" in shown and "last byte from loopback" in shown


def test_the_stop_record_needs_the_right_forensics(server: Server, provider: LoopbackProvider) -> None:
    provider.will(goes_silent(FIRST))
    run = start(server)
    token = server.post("/api/tokens", {"rights": ["view", "cancel"], "run": run, "name": "guest"}, status=201)
    headers = {"Authorization": f"Bearer {token['secret']}"}
    assert server.get(f"/api/runs/{run}/stops", status=403, headers=headers)["needs"] == "forensics"
    server.post(f"/api/runs/{run}/cancel")
