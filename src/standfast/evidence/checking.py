"""Checks plain rows against chains and checkpoints, one part at a time; nothing here needs a store."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise

from standfast.evidence.chains import Chain, HouseChain
from standfast.evidence.key_changes import Succession
from standfast.evidence.keys import fingerprint
from standfast.evidence.report import Report
from standfast.evidence.statements import Named, Statements
from standfast.house_events import RunForgotten
from standfast.stores.chain import row_digest
from standfast.stores.sides import Row

KEY_LIMIT = (
    "whoever holds the signing key can write another history and sign it; only an anchor that they cannot reach "
    "shows that"
)
SIGNING_LIMIT = "what was changed between being written and the next checkpoint was signed as it was found"
CHANGED = "its row, contract, calls or mail were changed between checkpoints {} and {}, without an event"
UNFINISHED = "it was forgotten, and not all of its content is deleted yet (`standfast forget` goes on with it)"
TAIL_LIMIT = "what came after the last checkpoint can be cut off without a trace"


def check_keys(
    found: Statements, keys: Collection[bytes], *, given: bool, known: Succession, house: HouseChain, report: Report
) -> None:
    """Whose signatures they are: `keys` are those that were given, or are beside the store."""
    if not found.said:
        return
    for said, key in zip(found.said, found.signers, strict=True):
        if not house.trouble and not house.signs(key, said.house.seq):
            text = f"it is signed with key {fingerprint(key)} after it had been replaced: it speaks of that change"
            report.broken("checkpoints", f"checkpoint {said.n}: {text}")
            return
    names = ", ".join(map(fingerprint, found.keys))
    last = found.signers[-1]
    if given and last not in known.after(keys):
        text = f"{len(found.said)} checkpoints are signed with {names}, which was replaced"
        report.unproved("key", f"{text}: nothing that the new one signed follows, so they may have been made since")
    elif given:
        report.proved("key", f"{len(found.said)} checkpoints are signed with {_asked(found.keys, keys)}")
    elif keys:
        text = f"signed with {names}, the key beside the store, which could have been replaced with it"
        report.unproved("key", f"{text}: give the one you know with --key")
    else:
        report.unproved("key", f"signed with {names}; whether that is the right key is not known: give it with --key")
    for one in known.changes:
        report.proved("key", one.words)


def _asked(signers: Collection[bytes], given: Collection[bytes]) -> str:
    """The keys by their names: those that were asked for, and those that came before or after them."""
    asked = ", ".join(fingerprint(key) for key in signers if key in given)
    others = ", ".join(fingerprint(key) for key in signers if key not in given)
    told = [f"{asked}, as you asked" if asked else "", f"{others}, by the changes of keys" if others else ""]
    return "; and with ".join(filter(None, told))


def check_run(
    run: Row,
    chain: Chain,
    anchored: tuple[int, bytes],
    side: bytes,
    house: HouseChain,
    found: Statements,
    report: Report,
) -> None:
    """The record of a run against every checkpoint that names it; `anchored` is where its own row says it was."""
    id_ = str(run[1])
    what = f"run {id_}"
    if chain.trouble:
        report.broken(what, chain.trouble)
        return
    if chain.marks.get(anchored[0]) != anchored[1]:
        report.broken(what, "its record does not hold what the run was last told")
        return
    said = found.of_run.get(id_, [])
    changed = changed_at_rest(said)
    if changed is not None and not _forgotten_between(house.forgotten.get(id_), changed, found):
        report.broken(what, CHANGED.format(*changed))
        return
    for n, one in said:
        if chain.marks.get(one.seq, b"").hex() != one.head:
            report.broken(what, f"row {one.seq}, for which checkpoint {n} was signed, is missing or another one now")
            return
    if not said:
        report.unproved(what, f"none of its {chain.rows} rows is covered by a checkpoint")
        return
    n, last = said[-1]
    if last.seq < chain.seq:
        report.unproved(what, f"events {last.seq + 1} to {chain.seq} came after checkpoint {n}")
    elif last.side is None:
        report.unproved(what, "it is under way: its calls, mail and row are signed for when it next stops")
    elif last.side != side.hex() and _forgotten_after(house.forgotten.get(id_), n, found):
        report.unproved(what, f"it was forgotten after checkpoint {n}: what is left of it is not signed for yet")
    elif last.side != side.hex():  # it was at rest, and has not moved since
        report.broken(what, f"its row, contract, calls or mail are not what checkpoint {n} was signed for")
    else:
        deleted = ", its content deleted" if chain.gone else ""
        report.proved(what, f"{chain.seq} events, signed for up to the last one by checkpoint {n}{deleted}")


def changed_at_rest(said: Sequence[tuple[int, Named]]) -> tuple[int, int] | None:
    """The first two checkpoints between which a run changed without an event: the later one signed a changed row."""
    for (before, was), (after, now) in pairwise(said):
        if was.seq == now.seq and None not in (was.side, now.side) and was.side != now.side:
            return before, after
    return None


def _forgotten_between(told: RunForgotten | None, places: tuple[int, int], found: Statements) -> bool:
    """Deletion changes what stands beside a record; who deleted it is in the record of the house."""
    house = {one.n: one.house.seq for one in found.said}
    return told is not None and house[places[0]] < told.seq <= house[places[1]]


def _forgotten_after(told: RunForgotten | None, n: int, found: Statements) -> bool:
    return told is not None and told.seq > next(one.house.seq for one in found.said if one.n == n)


def check_deletions(runs: dict[str, Chain], house: HouseChain, report: Report) -> None:
    """Deleted content is told of in the record of the house, before it is deleted."""
    for id_, chain in runs.items():
        told: RunForgotten | None = house.forgotten.get(id_)
        what = f"run {id_}"
        if chain.gone and told is None:
            report.broken(what, f"the content of {chain.gone} rows is gone, and nobody has recorded why")
        elif told is not None and (told.seq_of_run, told.head) != (chain.seq, chain.head.hex()):
            report.broken(what, "its record is not the one that was forgotten")
        elif told is not None and chain.gone != chain.rows:
            report.unproved(what, f"{UNFINISHED}: {chain.rows - chain.gone} of its rows have content")
    for id_ in house.forgotten.keys() - runs.keys():
        report.broken(f"run {id_}", "it was forgotten, and not even its place is left")


def check_missing(known: Iterable[str], found: Statements, report: Report) -> None:
    """Every run that a checkpoint names is there."""
    for id_ in sorted(found.of_run.keys() - set(known)):
        report.broken(f"run {id_}", f"checkpoint {found.of_run[id_][-1][0]} names it, and it is not there")


def check_house(house: HouseChain, side: bytes, found: Statements, report: Report) -> None:
    """The record of the house, and halts and tokens beside it, against the checkpoints."""
    what = "the house"
    if house.trouble:
        report.broken(what, house.trouble)
        return
    for one in found.said:
        if one.house.seq and house.marks.get(one.house.seq, b"").hex() != one.house.head:
            report.broken(what, f"row {one.house.seq}, for which checkpoint {one.n} was signed, is not the same now")
            return
    for before, after in pairwise(found.said):
        if before.house.seq == after.house.seq and before.house.side != after.house.side:
            report.broken(what, f"halts or tokens were changed between checkpoints {before.n} and {after.n}")
            return
    last = found.last
    if last is None:
        if house.rows:
            report.unproved(what, f"none of its {house.rows} rows is covered by a checkpoint")
    elif last.house.seq < house.seq:
        report.unproved(what, f"rows {last.house.seq + 1} to {house.seq} came after checkpoint {last.n}")
    elif last.house.side != side.hex():
        report.broken(what, f"halts or tokens are not what checkpoint {last.n} was signed for")
    else:
        report.proved(what, f"{house.rows} rows, with halts and tokens, as of checkpoint {last.n}")


def check_log(log: str, named: dict[int, str], rows: Iterable[Row], report: Report, *, whole: bool = True) -> bool:
    """The rows of a log against the digests in the records that wrote them; not `whole`: some may be deleted."""
    what = f"log {log}"
    left = dict(named)
    for idx, body in rows:
        digest = left.pop(idx, None)
        if digest is None:
            report.broken(what, f"no record names its row {idx}")
            return False
        if not isinstance(body, bytes) or row_digest(body) != digest:
            report.broken(what, f"row {idx} is not what was written")
            return False
    if left and whole:
        report.broken(what, f"row {min(left)} is missing")
    return not left or not whole


def check_clock(found: Statements, report: Report) -> None:
    """Wall times of checkpoints against the machine's own count of seconds."""
    for before, after in pairwise(found.said):
        if before.boot == after.boot and after.boot:
            moved = (after.at - before.at) - (after.uptime - before.uptime)
            if abs(moved) > 5.0:
                way = "forward" if moved > 0 else "back"
                text = f"the clock was set {way} by {abs(moved):.0f} s between checkpoints {before.n} and {after.n}"
                report.proved("clock", text)
