"""A request id is used for one thing: asked again it gives the same answer, asked for another it is Misuse."""

from __future__ import annotations

from collections.abc import Callable

from standfast.abc import Tx
from standfast.errors import Misuse


def made_once(tx: Tx, request_id: str | None, verb: str, id: str, asked: str, insert: Callable[[Tx], bool]) -> str:  # noqa: A002
    """The id of the run that `insert` makes, or of the one that this request made before."""
    if request_id is not None and (known := tx.answered(request_id)) is not None:
        if known[1:] != (verb, asked):
            raise used_for(request_id, known)
        return known[0]
    if insert(tx):
        tx.signal(id)
    if request_id is not None:
        tx.remember(request_id, id, verb, asked)
    return id


def used_for(request_id: str, known: tuple[str, str, str]) -> Misuse:
    """Says what a request id was used for before."""
    return Misuse(
        f"request id {request_id!r} was used for another request: {known[1].partition(' ')[0]} of run {known[0]}",
        hint="give every request an id of its own",
    )
