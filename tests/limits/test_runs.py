"""What a run and its store may hold, at each limit, below it and beyond it; no limit keeps a stop out (R34)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from tests.frames.world import Desk, careless
from tests.frames.world import a_world as desk
from tests.helpers import eventually, held

from standfast import Accepted, Done, Misuse, Refused, Run, Runtime, agent, arguments, child, children
from standfast.rights import new_id, new_secret
from standfast.tokens import make_token, revoke_token
from standfast.verbs import mailing


class Nothing(BaseModel):
    """No state."""

    deep: int = 0


@agent("waits")
async def waits(run: Run[Nothing]) -> Done[None]:
    return Done(None)


@agent("nests")
async def nests(run: Run[Nothing]) -> Done[int]:
    """Calls itself, and again."""
    return Done(await run.call(child(nests, Nothing(deep=run.state.deep + 1))))


def _labels(count: int, length: int = 1) -> dict[str, str]:
    return {f"{n}": "x" * length for n in range(count)}


@pytest.mark.parametrize(
    ("labels", "fits"),
    [
        (_labels(arguments.MOST_LABELS), True),
        (_labels(arguments.MOST_LABELS + 1), False),
        (_labels(1, arguments.LONGEST_LABEL), True),
        (_labels(1, arguments.LONGEST_LABEL + 1), False),
        ({"x" * arguments.LONGEST_LABEL: ""}, True),
        ({"x" * (arguments.LONGEST_LABEL + 1): ""}, False),
    ],
)
async def test_labels_are_few_and_short(tmp_path: Path, labels: dict[str, str], fits: bool) -> None:
    async with Runtime(tmp_path / "runs.db", [waits]) as runs:
        if fits:
            run = await runs.start(waits, Nothing(), labels=labels)
            assert [found.id for found in await runs.list(labels=labels)] == [run.id], "and runs are found by them"
        else:
            with pytest.raises(Misuse, match="label"):
                await runs.start(waits, Nothing(), labels=labels)
            assert await runs.list() == []


async def test_mail_that_nobody_reads_is_refused_at_its_limit_and_stops_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mailing, "MOST_UNREAD", 3)
    async with Runtime(tmp_path / "runs.db", [waits], drive=False) as runs:
        run = await runs.start(waits, Nothing())
        for n in range(2):
            assert isinstance(await run.message(f"{n}"), Accepted)
        assert isinstance(await run.redirect("another way"), Accepted)
        for refused in (await run.message("one more"), await run.redirect("one more")):
            assert isinstance(refused, Refused)
            assert "3 messages that it has not read" in refused.why
            assert [choice.verb for choice in refused.choices] == ["cancel", "pause"]
        assert isinstance(await run.pause(), Accepted)
        assert isinstance(await run.cancel(), Accepted)


async def test_mail_that_nobody_reads_is_refused_at_its_size_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cancel returns it all in one transaction, and nobody waits long for that."""
    monkeypatch.setattr(mailing, "MOST_UNREAD_BYTES", 10_000)
    async with Runtime(tmp_path / "runs.db", [waits], drive=False) as runs:
        run = await runs.start(waits, Nothing())
        assert isinstance(await run.message("x" * 9_000), Accepted)
        assert isinstance(await run.message("x" * 9_000), Accepted), "counted before it came"
        refused = await run.message("one more")
        assert isinstance(refused, Refused)
        assert refused.why.startswith("the run has 2 messages of 18,"), "it is their size that counts"
        assert refused.why.endswith(" bytes together that it has not read; at most 10,000 are kept")
        assert isinstance(await run.cancel(), Accepted)


async def test_orders_are_not_counted_with_mail_that_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are few by themselves: one for each thought."""
    monkeypatch.setattr(mailing, "MOST_UNREAD", 1)
    async with desk() as (runs, _):
        run = await runs.start(careless, Desk())
        await held(run, "error")
        assert isinstance(await run.abandon("report", "not needed any more"), Accepted)
        assert isinstance(await run.message("hello"), Accepted)
        refused = await run.message("one more")
        assert isinstance(refused, Refused) and refused.why == "the run has 1 message that it has not read"
        assert isinstance(await run.return_to("report"), Accepted), "nor are they refused"


async def test_an_agent_that_calls_itself_is_held_at_the_deepest_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(children, "DEEPEST_FAMILY", 3)
    async with Runtime(tmp_path / "runs.db", [nests]) as runs:
        run = await runs.start(nests, Nothing(), id="a")

        async def family() -> list[str]:
            found = sorted([one.id for one in await runs.list()], key=len)
            return found if len(found) == 3 else []

        deepest = await held(runs.handle((await eventually(family))[-1]), "error")
        assert "descends from 2 runs" in deepest.error and "at most 3" in deepest.error
        assert len(await runs.list()) == 3, "no fourth one was begun"
        assert isinstance(await run.cancel(), Accepted)
        assert (await run.settled()).status == "cancelled"


async def test_tokens_that_count_are_limited_and_those_that_have_ended_are_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("standfast.tokens.MOST_TOKENS", 2)

    async with Runtime(tmp_path / "runs.db", drive=False) as runs:

        async def make() -> Any:
            return await runs.control(lambda tx: make_token(tx, new_id(), new_secret(), ("view",)))

        first, _ = await make(), await make()
        with pytest.raises(Misuse, match="2 tokens that count already"):
            await make()
        await runs.control(lambda tx: revoke_token(tx, first.id))
        await make()
        with pytest.raises(Misuse, match="label"):
            await runs.control(lambda tx: make_token(tx, "t", new_secret(), ("view",), labels=_labels(51)))
