"""No stop is refused for its reason, by whichever way it comes; what is left out of it is said (R34)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.halt.operating import ALL, asked, operator, typed_json
from tests.limits.test_runs import Nothing, waits

from standfast import Accepted, Handle, Misuse, Runtime
from standfast.arguments import LONGEST_REASON, shortened
from standfast.operator.acting import LONGEST_NAME, Acting
from standfast.stores.sqlite import SqliteStore
from standfast.verbs.halting import LONGEST_HALT_ID

FITS = "x" * LONGEST_REASON
TOO_LONG = [FITS + "y", "x" * 60_000]


@pytest.fixture
async def run(tmp_path: Path) -> AsyncIterator[Handle[None]]:
    async with Runtime(tmp_path / "runs.db", [waits], drive=False) as runs:
        yield await runs.start(waits, Nothing(), id="r")


@pytest.mark.parametrize("given", TOO_LONG)
def test_a_long_reason_says_how_much_of_it_is_left_out(given: str) -> None:
    much = shortened(given)
    kept, _, told = much.partition("… [")
    assert len(much) <= LONGEST_REASON and given.startswith(kept)
    assert told == f"{len(given) - len(kept)} characters left out]"
    assert shortened(much) == much, "whoever shortens it again changes nothing"
    assert shortened(FITS) == FITS


@pytest.mark.parametrize("verb", ["pause", "cancel", "take_over"])
@pytest.mark.parametrize("given", [FITS, *TOO_LONG])
async def test_no_stop_is_refused_for_its_reason_by_the_library(run: Handle[None], verb: str, given: str) -> None:
    assert isinstance(await getattr(run, verb)(by="ann", reason=given, request_id="once"), Accepted)
    again = await getattr(run, verb)(by="ann", reason=shortened(given), request_id="once")
    assert isinstance(again, Accepted), "the same request, by a way that had shortened it before"
    assert [stop.reason for stop in await run.stops()] == [shortened(given)]


@pytest.mark.parametrize("given", [FITS, *TOO_LONG])
async def test_no_halt_is_refused_for_its_reason_by_the_library(run: Handle[None], tmp_path: Path, given: str) -> None:
    async with Runtime(tmp_path / "runs.db", drive=False) as runs:
        halt = await runs.halt(all=True, reason=given)
        assert (halt.reason, halt.runs) == (shortened(given), 1)
        lifted = await runs.lift(halt.id, reason=given)
        assert lifted.lifted_at is not None


@pytest.mark.parametrize("given", [FITS, *TOO_LONG])
def test_no_halt_is_refused_for_its_reason_or_its_actor_by_the_operator(tmp_path: Path, given: str) -> None:
    SqliteStore(tmp_path / "runs.db").close()
    acting = Acting(tmp_path / "runs.db")
    told = acting.answer({**ALL, "reason": given, "by": given}, "here")
    assert told["ok"] and (told["halt"]["reason"], told["halt"]["by"]) == (shortened(given), shortened(given))
    assert acting.answer({"do": "lift", "id": told["halt"]["id"], "reason": given}, "here")["ok"]
    acting.close()


@pytest.mark.parametrize("given", TOO_LONG)
async def test_the_command_halts_whatever_its_reason_with_an_operator_and_without(
    run: Handle[None], tmp_path: Path, given: str
) -> None:
    """Longer than a line to the operator may be, too."""
    words = ["--store", str(tmp_path / "runs.db"), "--all", "--reason", given * 2]
    halt = typed_json("halt", *words)
    assert (halt["reason"], halt["runs"]) == (shortened(given * 2), 1)
    with operator(tmp_path / "runs.db") as one:
        halt = typed_json("halt", *words)
        assert "operator's socket" in halt["way"]
        assert len(asked(one.path, {"do": "list"})["halts"]) == 2


@pytest.mark.parametrize("given", TOO_LONG)
def test_the_command_pauses_and_cancels_whatever_its_reason(run: Handle[None], tmp_path: Path, given: str) -> None:
    for verb in ("pause", "cancel"):
        told = typed_json(verb, "--store", str(tmp_path / "runs.db"), "r", "--reason", given)
        assert told["answer"] == "accepted"


@pytest.mark.parametrize("length", [LONGEST_HALT_ID, LONGEST_HALT_ID + 1])
async def test_the_id_of_a_halt_is_so_long_and_no_longer(run: Handle[None], tmp_path: Path, length: int) -> None:
    async with Runtime(tmp_path / "runs.db", drive=False) as runs:
        if length <= LONGEST_HALT_ID:
            assert (await runs.halt(all=True, reason="why", id="h" * length)).runs == 1
        else:
            with pytest.raises(Misuse, match=f"1 to {LONGEST_HALT_ID} characters"):
                await runs.halt(all=True, reason="why", id="h" * length)
            assert await runs.halts() == []
            assert (await run.view()).status == "queued", "nothing was halted"


@pytest.mark.parametrize("length", [LONGEST_NAME, LONGEST_NAME + 1])
def test_what_an_operator_is_asked_to_halt_is_so_long_and_no_longer(tmp_path: Path, length: int) -> None:
    SqliteStore(tmp_path / "runs.db").close()
    acting = Acting(tmp_path / "runs.db")
    told = acting.answer({"do": "halt", "agent": "a" * length, "reason": "why"}, "here")
    assert told["ok"] == (length <= LONGEST_NAME)
    assert len(acting.answer({"do": "list"}, "here")["halts"]) == told["ok"]
    acting.close()
