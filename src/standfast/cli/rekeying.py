"""`standfast rekey`: another signing key for a store; both keys sign that, so that old signatures go on to count."""

from __future__ import annotations

import click

from standfast.cli.codes import Unreachable
from standfast.cli.options import Place, me, reaching
from standfast.errors import Misuse
from standfast.evidence.redacted_store import RedactedStore
from standfast.evidence.rekeying import Rekeyed, change_key


@click.command()
@click.option("--reason", required=True, help="Why; it stays on record.")
@click.option("--lost", is_flag=True, help="The old key is gone for good: only the new one signs, and verify says so.")
@reaching
def rekey(place: Place, reason: str, lost: bool) -> None:
    """Make a new signing key for a store, in place of the one it has; that is on record, signed by both."""
    if place.url is not None:
        raise Misuse("only who has the store's file can change its key", hint="use --store on the machine it is on")
    if not place.store.exists():
        raise Unreachable(f"there is no {place.store}", hint="give --store")
    store = RedactedStore(place.store.absolute())
    try:
        store.create()
        done = change_key(
            store,
            store.path,
            by=place.by or me(),
            reason=store.clean(reason),
            route="standfast rekey",
            lost=lost,
        )
    finally:
        store.close()
    place.show({"old": done.old, "new": done.new, "kept": str(done.kept)}, lambda: _lines(done, lost=lost))


def _lines(done: Rekeyed, *, lost: bool) -> list[str]:
    signed = "signed by the new one alone: verify calls that unproved" if lost else "signed by both"
    return [
        f"the store is signed with key {done.new} from now on, no longer with {done.old}; that is on record, {signed}",
        f"the old public key is kept in {done.kept}; copy the new one to where you verify",
    ]
