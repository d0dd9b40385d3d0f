"""An evidence bundle of a run: its record with what proves it, and what follows from it, in one signed file (R32).

Nothing that is exact in the store (states, logs, journal, mail) is in it; what the record redacts stays redacted.
"""

from __future__ import annotations

import platform
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from importlib import metadata
from typing import IO, Any, TypedDict

from pydantic_core import from_json, to_json

from standfast.abc import Store, Tx
from standfast.control import load
from standfast.errors import Misuse, StandfastError, StoreDamaged
from standfast.evidence import bundle_shapes as shapes
from standfast.evidence.anchors import anchor_line
from standfast.evidence.bundle_shapes import About, CheckpointLine, Directive, Included, Made, Manifest, RecordLine
from standfast.evidence.bundle_zip import BundleWriter, as_line
from standfast.evidence.chains import Chain, follow_row
from standfast.evidence.checkpoints import FORMAT as BLIND
from standfast.evidence.checkpoints import hash_of, signed_part
from standfast.evidence.clocks import clocks_of
from standfast.evidence.html_report import report_page
from standfast.evidence.key_changes import Succession, changes_in
from standfast.evidence.keys import Key
from standfast.evidence.notary import checkpoint_now
from standfast.evidence.readme import readme
from standfast.evidence.run_parts import RunParts, read_run
from standfast.evidence.sealing import Sealed, recipients_from, seal
from standfast.evidence.statements import Named, Shown
from standfast.house_events import EvidenceTaken, EvidenceViewed, HouseEvent, decode_house, encode_house
from standfast.json_values import fingerprint
from standfast.redaction import Redactor
from standfast.rows import CheckpointRow, RunRow
from standfast.stores.chain import digests, genesis


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is to be taken, by whom, and for whom its sealed part is."""

    run: str
    by: str | None = None
    route: str = ""
    recipients: Sequence[str] = ()
    children: bool = False
    anchor: Sequence[str] = ()  # lines of an anchor, to be kept beside the checkpoints
    instructions: Mapping[str, str] = field(default_factory=dict[str, str])  # of the agents that are known here


class Wishes(TypedDict, total=False):
    """The same as keywords."""

    by: str | None
    route: str
    recipients: Sequence[str]
    children: bool
    anchor: Sequence[str]
    instructions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle that was written: what it says of itself, and the SHA-256 of its manifest, which the house keeps."""

    about: About
    digest: str


def write_bundle(store: Store, key: Key, file: IO[bytes], wish: Wish) -> Bundle:
    """Sign for where the run stands, and write everything up to there; that it was taken is in the house's record."""
    recipients = recipients_from(wish.recipients)
    family = store.read(lambda tx: _family(tx, wish))
    store.create()  # who only looked until now writes from here on
    viewed = EvidenceViewed(run=wish.run, what="bundle", by=wish.by, route=wish.route)
    store.write(lambda tx: tx.note(viewed))
    checkpoint = checkpoint_now(store, key, "evidence", [one.id for one in family])
    assert checkpoint is not None, "runs were named"
    with BundleWriter(file) as out:
        bundle = store.read(lambda tx: _Writing(tx, key, out, wish, recipients, checkpoint).write())
    taken = EvidenceTaken(
        run=wish.run, digest=bundle.digest, sealed_for=bundle.about.directive.sealed_for, by=wish.by, route=wish.route
    )
    store.write(lambda tx: tx.note(taken))
    return bundle


def _family(tx: Tx, wish: Wish) -> list[RunRow]:
    """The run, and all below it if they are wanted."""
    found = [load(tx, wish.run)]
    if wish.children:
        for one in found:
            found += [load(tx, id_) for id_ in tx.children(one.id, live=False)]
            if len(found) - 1 > shapes.MOST_CHILDREN:
                raise Misuse(
                    f"run {wish.run} has more than {shapes.MOST_CHILDREN} descendants",
                    hint="take bundles of the children that matter; nothing was written",
                )
    return found


class _Writing:
    """One consistent look at the store, written down."""

    def __init__(
        self,
        tx: Tx,
        key: Key,
        out: BundleWriter,
        wish: Wish,
        recipients: tuple[str, ...],
        checkpoint: CheckpointRow,
    ) -> None:
        self._tx = tx
        self._key = key
        self._out = out
        self._wish = wish
        self._recipients = recipients
        self._last = checkpoint
        self._redactor = Redactor(key=key.derive(b"redaction"))  # the same hashes as in the record

    def write(self) -> Bundle:
        named = {one["run"]: Named.model_validate(one) for one in from_json(self._last.doc)["runs"]}
        family = [one for one in _family(self._tx, self._wish) if one.id in named]  # one may have just begun
        runs = [self._run(row, named[row.id], index) for index, row in enumerate(family)]
        checkpoints = self._checkpoints({row.id for row in family})
        self._out.part(shapes.CHECKPOINTS, (as_line(one.line()) for one in checkpoints.lines))
        clocks = clocks_of(checkpoints.shown, [(parts.run, parts.stops) for _, parts in runs])
        self._out.part(shapes.CLOCKS, [clocks.file()])
        custody = self._custody({row.id for row in family})
        self._out.part(shapes.CUSTODY, [custody_file(custody)])
        changes = Succession.of(changes_in(self._tx.plain_house())).changes
        if changes:
            self._out.part(shapes.KEYS, (as_line(one.line()) for one in changes))
        anchored = self._anchor(checkpoints)
        sealed, directive = self._directive(family[0])
        if sealed is not None:
            self._out.part(shapes.SEALED, [sealed.content])
        about = About(
            format=shapes.FORMAT,
            derived=shapes.DERIVED,
            made=Made(at=self._last.at, by=self._clean(self._wish.by), route=self._clean(self._wish.route) or ""),
            versions=_versions(),
            models=sorted({model for _, parts in runs for model in parts.models}),
            runs=[included for included, _ in runs],
            children_not_included=self._left_out(runs),
            checkpoint=self._last.n,
            checkpoints_left_out=checkpoints.left_out,
            key=self._key.name,
            directive=directive,
            anchor_lines=anchored,
        )
        self._out.part(shapes.README, [readme(about)])
        self._out.part(shapes.REPORT, report_page(about, [parts for _, parts in runs], clocks, custody))
        manifest = Manifest(about=about, parts=self._out.parts).line()
        signature = shapes.Signature(
            key=self._key.public.hex(), signature=self._key.sign(shapes.DOMAIN + manifest).hex()
        )
        self._out.sign(manifest, signature.line())
        return Bundle(about, sha256(manifest).hexdigest())

    # --- runs ---------------------------------------------------------------------------------------

    def _run(self, row: RunRow, named: Named, index: int) -> tuple[Included, RunParts]:
        if row.doc.forgotten and self._tx.has_content(row.n):
            raise Misuse(
                f"run {row.id} was forgotten, and not all of its content is deleted yet",
                hint="forget it again, which finishes that; then take the bundle",
            )
        folder = f"children/{index}" if index else shapes.RUN_FOLDER
        chain = Chain(head=genesis(row.id))
        lines = (as_line(one.line()) for one in self._rows(row, named.seq, chain))
        self._out.part(f"{folder}/{shapes.RECORD}", lines)
        if chain.head.hex() != named.head:
            raise _damaged(row.id, "its record is not the one that was just signed for")
        try:
            parts = read_run(row.id, (one.body for one in self._rows(row, named.seq, Chain(head=genesis(row.id)))))
        except ValueError as error:
            raise _damaged(row.id, f"an event cannot be read: {error}") from error
        for name, content in parts.files().items():
            self._out.part(f"{folder}/{name}", [content])
        included = Included(
            id=row.id,
            folder=folder,
            agent=row.agent,
            parent=row.parent,
            status=named.status,
            seq=named.seq,
            rows=chain.rows,
            head=named.head,
            forgotten=bool(row.doc.forgotten),
        )
        return included, parts

    def _rows(self, row: RunRow, upto: int, chain: Chain) -> Iterator[RecordLine]:
        """The record as it is shown, followed as it is read: nothing is exported as proved that is not."""
        for seq, at, body, step, state, hash_, gone in self._tx.plain_record(row.n):
            if isinstance(seq, int) and seq > upto:
                return
            try:
                content = digests(body, state) if gone is None else bytes(gone)
                text = None if gone is not None else bytes(body).decode()
            except (TypeError, UnicodeDecodeError):
                raise _damaged(row.id, f"row {seq} is not what was written") from None
            if not follow_row(chain, seq, at, step, content, hash_):
                raise _damaged(row.id, chain.trouble)
            yield RecordLine(
                seq=seq,
                at=at,
                step=step,
                body=text,
                state=None if state is None else content[32:].hex(),
                gone=None if gone is None else content.hex(),
                hash=chain.head.hex(),
            )

    def _left_out(self, runs: Sequence[tuple[Included, RunParts]]) -> list[str]:
        """Children that are not in here: by the record, which proves them; of a forgotten run by the store."""
        below: set[str] = set()
        for one, parts in runs:
            below |= {*self._tx.children(one.id, live=False)} if one.forgotten else {*parts.children}
        return sorted(below - {one.id for one, _ in runs})

    # --- what proves it -----------------------------------------------------------------------------

    def _checkpoints(self, ids: set[str]) -> _Checkpoints:
        """Those that name one of the runs, up to the one that was made for this."""
        found: list[tuple[CheckpointRow, list[Named]]] = []
        marks = [b'"run":' + to_json(id_) for id_ in ids]
        left_out = after = 0
        while rows := self._tx.checkpoints(after):
            after = rows[-1].n
            for row in rows:
                if row.n > self._last.n or not any(mark in row.doc for mark in marks):
                    continue
                said: dict[str, Any] = from_json(row.doc)
                if said["format"] != BLIND:  # it cannot be shown without the names of others
                    left_out += 1
                    continue
                found.append((row, [Named.model_validate(one) for one in said["runs"] if one["run"] in ids]))
                if len(found) > shapes.MOST_CHECKPOINTS:
                    del found[1]
                    left_out += 1
        return _Checkpoints(found, left_out)

    def _custody(self, ids: set[str]) -> list[HouseEvent]:
        """What the house has recorded about these runs."""
        found: list[HouseEvent] = []
        after = 0
        while events := self._tx.house(after):
            after = events[-1].seq
            of_runs = [event for event in events if getattr(event, "run", None) in ids]
            found += [decode_house(self._redactor.line(encode_house(event))) for event in of_runs]
        return found

    def _anchor(self, checkpoints: _Checkpoints) -> int:
        """The anchor's lines about the checkpoints that are shown; the anchor itself is what proves something."""
        if not self._wish.anchor:
            return 0
        wanted = {row.n for row, _ in checkpoints.found}
        lines = [line for line in anchor_lines(self._wish.anchor) if line[0] in wanted]
        self._out.part(shapes.ANCHOR, (anchor_line(*line).encode() + b"\n" for line in lines))
        return len(lines)

    # --- the directive --------------------------------------------------------------------------------

    def _directive(self, row: RunRow) -> tuple[Sealed | None, Directive]:
        contract = self._tx.contract(row.doc.contract) if row.doc.contract else None
        text = self._wish.instructions.get(row.agent)
        if contract is not None and "instructions" not in contract:
            return None, _unsealed("none", "the agent has no instructions that the runtime knows of")
        if not self._recipients:
            return None, _unsealed("no_recipients", "nobody was named who may read the agent's instructions")
        if contract is None:
            return None, _unsealed("not_available", "what the agent was is not known any more")
        if text is None:
            return None, _unsealed("not_available", "the process that made this bundle does not have the agent")
        if fingerprint(text) != contract["instructions"]:
            return None, _unsealed("not_available", "the agent that is here has other instructions than the run had")
        sealed = seal(row.id, row.agent, text, self._recipients)
        why = "the instructions that the run began with, for the recipients alone"
        return sealed, Directive(
            state="sealed", why=why, sealed_for=list(sealed.recipients), salted_sha256=sealed.salted_sha256
        )

    def _clean(self, text: str | None) -> str | None:
        return None if text is None else self._redactor.text(text)


@dataclass(frozen=True, slots=True)
class _Checkpoints:
    found: list[tuple[CheckpointRow, list[Named]]]
    left_out: int

    @property
    def lines(self) -> Iterator[CheckpointLine]:
        for row, named in self.found:
            doc = signed_part(row.doc).decode()
            yield CheckpointLine(doc=doc, key=row.key.hex(), signature=row.signature.hex(), named=named)

    @property
    def shown(self) -> list[Shown]:
        return [Shown.model_validate_json(signed_part(row.doc)) for row, _ in self.found]

    @property
    def hashes(self) -> dict[int, str]:
        return {row.n: hash_of(row) for row, _ in self.found}


def custody_file(events: Sequence[HouseEvent]) -> bytes:
    """What the house has recorded about the runs, as a part of a bundle."""
    return b"[" + b",\n".join(map(encode_house, events)) + b"]"


def anchor_lines(lines: Iterable[str]) -> Iterator[tuple[int, float, str]]:
    """Number, time and hash of each line of an anchor that can be read."""
    for line in lines:
        try:
            said: Any = from_json(line)
            n, at, hash_ = said["n"], said["at"], said["hash"]
        except (KeyError, TypeError, ValueError):
            continue
        if type(n) is int and isinstance(at, int | float) and isinstance(hash_, str):
            yield n, float(at), hash_


def _unsealed(state: shapes.DirectiveState, why: str) -> Directive:
    return Directive(state=state, why=why, sealed_for=[], salted_sha256=None)


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version}
    for name in ("standfast", "cryptography", "pyrage"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return dict(sorted(found.items()))


def _damaged(run: str, what: str) -> StandfastError:
    return StoreDamaged(
        f"run {run}: {what}",
        hint="nothing was written; keep a copy of the store as it is, and see `standfast verify` of it",
    )
