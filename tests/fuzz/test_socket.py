"""Every message of a page's socket, in any order and shape, also as bytes: the socket answers on (R34)."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import strategies as st
from tests.fuzz import hostile
from tests.fuzz.callers import Caller, callers
from tests.fuzz.oracle import World
from tests.fuzz.profile import SOAK, tried
from tests.fuzz.test_rest import SENSE, people
from tests.server.serving import LONG, Server, Socket
from tests.trials import trials

from standfast.server.problems import Problem
from standfast.server.rights import MESSAGES
from standfast.server.socket import Op, _op
from standfast.server.verbs import EVERY_VERB

EXAMPLES = 8  # conversations by each kind of caller
FIELDS = ["op", "n", "run", "after", "filter", "verb", "args", "request_id", "x"]
FILTERS = ["status", "agent", "labels", "needs", "text", "limit", "before", "x"]
_numbers = itertools.count(1)


def messages(runs: list[str]) -> st.SearchStrategy[Any]:
    """Those there are, with some of their fields replaced; a new one is tried as soon as it is in the table."""
    run = hostile.mostly(st.sampled_from(runs), hostile.texts)
    verb = st.sampled_from([*EVERY_VERB, "x"])
    filters = st.dictionaries(st.sampled_from(FILTERS), hostile.values, max_size=2) | st.fixed_dictionaries(
        {"labels": st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=60)}
    )
    sensible = st.fixed_dictionaries(
        {"op": st.sampled_from([*MESSAGES]), "n": st.integers(0, 9), "run": run},
        optional={"after": st.integers(0, 50), "filter": filters},
    )
    acting = verb.flatmap(
        lambda name: st.fixed_dictionaries(
            {
                "op": st.just("verb"),
                "n": st.integers(0, 9),
                "run": run,
                "verb": st.just(name),
                "args": hostile.mostly(
                    st.just(SENSE.get(name, {})),
                    st.dictionaries(
                        st.sampled_from([*SENSE.get(name, {}), "reason", "if_seq"]), hostile.values, max_size=2
                    ),
                ),
            }
        )
    )
    changes = st.just({}) | st.dictionaries(st.sampled_from(FIELDS), hostile.values, max_size=2)
    changed = st.tuples(sensible | acting, changes).map(lambda two: {**two[0], **two[1]})
    return hostile.mostly(hostile.mostly(acting, changed, 2), hostile.values, 6)


@pytest.mark.more
@pytest.mark.soak
@pytest.mark.timeout(0 if SOAK else 600)
def test_no_message_breaks_a_socket(server: Server) -> None:
    """R34: every conversation can be gone on with, nothing is a fault of ours, and what was refused changed nothing."""
    runs = people(server, 0)
    with callers(server, runs[0]) as all_of_them:
        everybody = [one for one in all_of_them if one.name not in ("nobody", "somebody", "ended")]
        world = World(server)
        admins = [one for one in everybody if one.name == "admin"] * 4
        for round_, caller in enumerate([*everybody, *admins], 1):
            runs = people(server, round_)
            world.went_on()
            _talk(world, caller, runs, f"{caller.name} {round_}")
        fewest = min(world.answers[kind] for kind in ("accepted", "refused", "problem"))
        assert fewest > trials(0, 10, 10), world.answers
        world.close(*everybody)


def _talk(world: World, caller: Caller, runs: list[str], name: str) -> None:
    frame = st.tuples(messages(runs), hostile.mostly(st.just(hostile.BROKEN[0]), hostile.bodies), st.booleans())

    @tried(EXAMPLES, name, frames=st.lists(frame, min_size=1, max_size=8), at_once=st.booleans())
    def talk(frames: list[tuple[Any, Any, bool]], at_once: bool) -> None:
        with world.server.socket(headers=caller.headers, max_size=None) as page:
            for some in [frames] if at_once else [[one] for one in frames]:
                said = [_numbered(value, broken) for value, broken, _ in some]
                for raw, (_, _, as_bytes) in zip(said, some, strict=True):
                    page.raw.send(raw if as_bytes else raw.decode("utf-8", "replace"))
                answers = _answers(page, caller, said)
                _judge(world, said, answers, f"{caller.name}: {said!r:.600}")

    talk()


def _numbered(value: Any, broken: Any) -> bytes:
    """What is sent; whatever the server can read has a number of its own, by which its answer is known."""
    raw = broken(hostile.written(value))
    return raw if _read(raw) is None else broken(hostile.written({**value, "n": next(_numbers)}))


def _read(raw: bytes) -> Op | None:
    try:
        return _op(raw)
    except Problem:
        return None


def _answers(page: Socket, caller: Caller, said: list[bytes]) -> list[Any]:
    """All answers, once every verb and a ping after them has its own; none is a fault of ours or holds a secret."""
    n = next(_numbers)
    page.say(op="ping", n=n)
    waiting = {n} | {op.n for raw in said if (op := _read(raw)) is not None and op.op == "verb"}
    answers: list[Any] = []
    while waiting:
        raw = page.raw.recv(timeout=LONG)
        assert caller.secret not in str(raw), said
        told = json.loads(raw)
        assert (told.get("problem") or {}).get("status") != 500, (told, said)
        assert told["op"] != "bye", (told, said)
        if told["op"] in ("answer", "pong"):
            waiting.discard(told["n"])
        if told["op"] == "answer":
            answers.append(told)
    return answers


def _judge(world: World, said: list[bytes], answers: list[Any], what: str) -> None:
    """Nothing has changed but runs that have accepted a verb, or that were made."""
    given = [told["answer"]["answer"] for told in answers if "answer" in told]
    world.answers.update([*given, *("problem" for told in answers if "problem" in told)])
    asked = {op.n: op for raw in said if (op := _read(raw)) is not None}
    changed: set[str] = set()
    for told in answers:
        if told.get("answer", {}).get("answer") == "accepted":
            changed |= {str(asked[told["n"]].run), (told["answer"].get("run") or {}).get("id", "")}  # a fork: both
    refused = len(given) + sum(told["problem"]["status"] == 409 for told in answers if "problem" in told)
    try:
        world.unchanged(what, said_no=refused, but=changed)
    except AssertionError as error:
        world.faults.append(str(error))
