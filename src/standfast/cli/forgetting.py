"""`standfast forget`: delete the content of ended runs; that they were, and who deleted them, stays on record."""

from __future__ import annotations

import re
import time
from collections.abc import Generator
from typing import Any

import click

from standfast.cli.access import matching
from standfast.cli.answer_codes import code_of_answer
from standfast.cli.codes import Code, Unreachable
from standfast.cli.options import Place, RunId, me, reaching, say_json
from standfast.cli.saying import tell
from standfast.errors import Misuse
from standfast.evidence.forgetting import PAUSE_SECONDS, Turn, ended_before, forgetting
from standfast.evidence.notary import sign_if_possible
from standfast.evidence.redacted_store import RedactedStore
from standfast.records import Accepted, Answer, Refused

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


class Age(click.ParamType[float]):
    """30d, 12h, 90m."""

    name = "age"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", str(value))
        if found is None:
            self.fail("write a number with s, m, h, d or w, as 30d", param, ctx)
        return float(found[1]) * _SECONDS[found[2]]


@click.command()
@click.argument("run", type=RunId(), metavar="[RUN]", required=False)
@click.option("--older-than", type=Age(), metavar="AGE", help="All that ended longer ago than this, as 30d.")
@click.option("--reason", required=True, help="Why; it stays on record.")
@reaching
def forget(place: Place, run: str | None, older_than: float | None, reason: str) -> None:
    """Delete what ended runs did and said, for good; hashes stay, so that the record still holds together."""
    if place.url is not None:
        raise Misuse("only who has the store's file can forget runs", hint="use --store on the machine it is on")
    if (run is None) == (older_than is None):
        raise click.UsageError("name a run, or give --older-than")
    if not place.store.exists():
        raise Unreachable(f"there is no {place.store}", hint="give --store")
    store = RedactedStore(place.store.absolute())
    try:
        store.create()
        ids = [_one(store, run)] if run is not None else _older(store, older_than or 0.0)
        by, why = place.by or me(), store.clean(reason)  # it outlives what is forgotten
        answers = {id_: _forgotten(store, forgetting(id_, by=by, reason=why, route="standfast forget")) for id_ in ids}
        unsigned = sign_if_possible(store, str(store.path), "forget") if any(answers.values()) else ""
    finally:
        store.close()
    _show(place, answers, unsigned)


def _forgotten(store: RedactedStore, turns: Generator[Turn, Any, Answer]) -> Answer:
    """Each turn in a transaction of its own, with room between them for whoever waits for the store."""
    found: Any = None
    while True:
        try:
            kind, act = turns.send(found)
        except StopIteration as end:
            answer: Answer = end.value
            return answer
        if kind == "read":
            found = store.read(act)
        else:
            found = store.write(act)
            time.sleep(PAUSE_SECONDS)


def _one(store: RedactedStore, given: str) -> str:
    """The run that is meant: by its id, or by enough of it."""
    found = store.read(
        lambda tx: tx.list_runs(status=None, agent=None, labels=None, needs=None, limit=1_000_000, before=None)
    )
    ids = [id_ for id_, _, _ in found]
    fits = [given] if given in ids else matching(given, ids)
    if len(fits) != 1:
        raise Misuse(
            f"{'no run' if not fits else 'more than one run'} is called {given!r}", hint="standfast ps shows them"
        )
    return fits[0]


def _older(store: RedactedStore, seconds: float) -> list[str]:
    return store.read(lambda tx: ended_before(tx, tx.now - seconds))


def _show(place: Place, answers: dict[str, Answer], unsigned: str) -> None:
    if place.json:
        say_json({"answers": {id_: _told(answer) for id_, answer in answers.items()}, "unsigned": unsigned})
    else:
        for id_, answer in answers.items():
            tell(f"{id_}: {_told(answer)}")
        if not answers:
            tell("nothing that old has ended")
        if unsigned:
            tell(unsigned)
    worst = max((code_of_answer(answer) for answer in answers.values()), default=Code.OK)
    if worst:
        raise click.exceptions.Exit(worst)


def _told(answer: Answer) -> str:
    return answer.note if isinstance(answer, Accepted) else answer.why if isinstance(answer, Refused) else "too late"
