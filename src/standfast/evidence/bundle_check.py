"""`verify` of a bundle: from the file and a public key alone, and as if somebody hostile had made the file (R32)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from standfast.evidence import bundle_shapes as shapes
from standfast.evidence.bundle import anchor_lines, custody_file
from standfast.evidence.bundle_claims import claims_of
from standfast.evidence.bundle_shapes import About, CheckpointLine, Included, Manifest, RecordLine, Signature
from standfast.evidence.bundle_trust import Anchored, Trust
from standfast.evidence.bundle_zip import BundleReader, NotABundle
from standfast.evidence.chains import Chain, follow_row
from standfast.evidence.checking import CHANGED, KEY_LIMIT, SIGNING_LIMIT, changed_at_rest
from standfast.evidence.checkpoints import DOMAIN, hash_of, stood_hash
from standfast.evidence.clocks import Clocks, clocks_of
from standfast.evidence.html_report import report_page
from standfast.evidence.html_text import when
from standfast.evidence.key_changes import NO_CHANGES, KeyChange, Succession, trouble_between
from standfast.evidence.keys import fingerprint, verify_signature
from standfast.evidence.readme import readme
from standfast.evidence.report import Report
from standfast.evidence.run_parts import RunParts, read_run
from standfast.evidence.statements import Named, Shown
from standfast.house_events import HouseEvent, RunForgotten, decode_house
from standfast.json_values import is_array
from standfast.odd_text import one_line, plain
from standfast.records import ENDED
from standfast.rows import CheckpointRow
from standfast.stores.chain import NO_STATE, genesis

M = TypeVar("M", bound=BaseModel)
STORE_HEAD = b"SQLite format 3\0"

LIMITS = (
    "that a certain model said these words: they are what its provider sent to the machine that recorded them",
    "paraphrase, translation and unknown ciphers of the agent's instructions: no tripwire sees them",
    "the wall clock: times are what the machine's clock said, beside its own count of seconds where that is known",
    "what anybody saw: text is counted as handed to a connection",
    "what is redacted, and states, logs, journal and mail: the bundle has digests of them at most",
    "who somebody is: a name in the record is a token's, or what somebody called themselves",
)


def is_bundle(path: Path) -> bool:
    """Is it one, or meant to be one? A store begins in its own way."""
    with path.open("rb") as file:
        head = file.read(len(STORE_HEAD))
    return head[:4] in (b"PK\x03\x04", b"PK\x05\x06") or (path.suffix.lower() == ".zip" and head != STORE_HEAD)


def about_of(path: Path) -> About:
    """What a bundle says of itself, unproved; NotABundle if it is none."""
    with BundleReader(path) as reader:
        return _read(Manifest, reader.whole(shapes.MANIFEST, shapes.MOST_OF_MANIFEST), shapes.MANIFEST).about


def verify_bundle(
    path: Path, given: Collection[bytes] = (), anchor: Iterable[str] | None = None, replaced: Collection[bytes] = ()
) -> Report:
    """What is proved about the bundle at this path, and what is not.

    `replaced` are keys that those given took the place of.
    """
    report = Report()
    try:
        with BundleReader(path) as reader:
            _Checking(reader, Trust(given, replaced), report).check(anchor)
    except NotABundle as error:
        report.broken("file", plain(error.message))
    return report


@dataclass(slots=True)
class _Checkpoints:
    """The checkpoints of a bundle: what they say of each run, and what anchors know them by."""

    shown: list[Shown] = field(default_factory=list[Shown])
    named: dict[str, list[tuple[int, Named]]] = field(default_factory=dict[str, list[tuple[int, Named]]])
    hashes: dict[int, str] = field(default_factory=dict[int, str])


class _Checking:
    def __init__(self, reader: BundleReader, trust: Trust, report: Report) -> None:
        self._reader = reader
        self._trust = trust
        self._known = trust.known = self._key_changes()
        self._signer = b""
        self._report = report
        self._sizes: dict[str, int] = {}

    def check(self, anchor: Iterable[str] | None) -> None:
        manifest = self._manifest()
        if manifest is None:
            return
        unknown = self._trust.unknown(self._signer)
        if unknown:
            self._report.unproved("manifest", unknown)  # honest or not: what contradicts it is looked for all the same
        self._follow(manifest, anchor)
        if unknown and not self._report.is_broken():
            self._report.doubt()

    def _follow(self, manifest: Manifest, anchor: Iterable[str] | None) -> None:
        about = manifest.about
        self._parts(manifest)
        if self._report.is_broken():
            return  # nothing in it is to be relied on
        checkpoints = self._checkpoints(about)
        if checkpoints is None:
            return
        runs = [parts for one in about.runs if (parts := self._run(one, about, checkpoints)) is not None]
        self._family(about, runs)
        custody = self._custody(about)
        if self._report.is_broken() or custody is None:
            return
        clocks = clocks_of(checkpoints.shown, [(parts.run, parts.stops) for parts in runs])
        self._derived(about, runs, clocks, custody)
        anchored = self._anchor(about, checkpoints, anchor)
        self._tell(about, clocks, custody)
        if not self._trust.unknown(self._signer) and not self._report.is_broken():
            self._judge_signer(about, anchored)

    # --- who says so ------------------------------------------------------------------------------------

    def _manifest(self) -> Manifest | None:
        raw = self._reader.whole(shapes.MANIFEST, shapes.MOST_OF_MANIFEST)
        signature = _read(Signature, self._reader.whole(shapes.SIGNATURE, 4096), shapes.SIGNATURE)
        try:
            key, signed = bytes.fromhex(signature.key), bytes.fromhex(signature.signature)
        except ValueError:
            raise NotABundle("its signature is no signature") from None
        if not verify_signature(key, shapes.DOMAIN + raw, signed):
            self._report.broken("manifest", "its signature does not fit: it was changed after it was signed")
            return None
        manifest = _read(Manifest, raw, shapes.MANIFEST)
        about = manifest.about
        if about.format != shapes.FORMAT:
            raise NotABundle(f"its format {about.format} is not known here; use a newer standfast")
        if about.key != fingerprint(key) or not about.runs:
            raise NotABundle("its manifest contradicts itself")
        self._signer = key
        for one in self._known.changes:
            self._report.proved("key", one.words)
        return manifest

    def _judge_signer(self, about: About, anchored: Anchored) -> None:
        """Does the key that signed it count? Said last: of one that was replaced, the anchor knows when it signed."""
        standing, text = self._trust.standing(self._signer, about.made.at, anchored)
        if standing == "broken":
            self._report.broken("manifest", text)
        elif standing == "proved":
            self._report.proved("key", text)
        else:
            self._report.unproved("key", text)
        if standing in ("doubted", "broken"):
            self._report.doubt()

    def _key_changes(self) -> Succession:
        """Read before anything else: each is proved by the signatures of both keys, and by nothing around it."""
        if shapes.KEYS not in self._reader.names:
            return NO_CHANGES
        lines = self._reader.whole(shapes.KEYS, shapes.MOST_OF_KEYS).splitlines()
        changes = [_read(KeyChange, line, shapes.KEYS) for line in lines]
        if not all(one.signed_by_both for one in changes):
            raise NotABundle(f"{shapes.KEYS} has a change of keys that is not signed by both")
        return Succession(changes)

    def _parts(self, manifest: Manifest) -> None:
        """Every part is the one that was signed for, and there are no others."""
        listed = {part.name: part for part in manifest.parts}
        expected = _expected(manifest.about)
        there = self._reader.names - {shapes.MANIFEST, shapes.SIGNATURE}
        if len(listed) != len(manifest.parts) or listed.keys() - {shapes.KEYS} != expected:
            raise NotABundle("its manifest does not list the parts that a bundle has")
        for name in sorted(there ^ listed.keys()):
            text = "is missing" if name in listed else "is in no manifest: it was put in"
            self._report.broken(name, text)
        for name in sorted(there & listed.keys()):
            part = listed[name]
            self._sizes[name] = part.size
            digest, size = sha256(), 0
            try:
                for piece in self._reader.pieces(name, part.size):
                    digest.update(piece)
                    size += len(piece)
                fits = (size, digest.hexdigest()) == (part.size, part.sha256)
            except NotABundle as error:
                self._report.broken(name, plain(error.message))
                continue
            if not fits:
                self._report.broken(name, "it is not the part that was signed for")
        if not self._report.is_broken():
            self._report.proved("parts", f"all {len(listed)} are those that were signed for")

    # --- what it says ------------------------------------------------------------------------------------

    def _checkpoints(self, about: About) -> _Checkpoints | None:
        found = _Checkpoints()
        previous: tuple[int, str] | None = None
        signers: list[bytes] = []
        allowed = self._trust.beside(self._signer)
        for raw in self._reader.lines(shapes.CHECKPOINTS, self._sizes[shapes.CHECKPOINTS]):
            line = _read(CheckpointLine, raw, shapes.CHECKPOINTS)
            said, hash_, trouble = _stated(line, allowed)
            n = 0 if said is None else said.n
            if said is not None and previous is not None:
                if n <= previous[0]:
                    trouble = "it is not in its place"
                elif n == previous[0] + 1 and said.previous != previous[1]:
                    trouble = "it does not follow the one before it"
            if said is None or trouble:
                self._report.broken("checkpoints", f"checkpoint {n or '?'}: {trouble}")
                return None
            if not self._may_sign(n, _hex(line.key), signers):
                return None
            previous = n, hash_
            found.shown.append(said)
            found.hashes[n] = hash_
            for one in line.named:
                found.named.setdefault(one.run, []).append((n, one))
        if not found.shown or found.shown[-1].n != about.checkpoint or found.shown[-1].at != about.made.at:
            self._report.broken("checkpoints", f"checkpoint {about.checkpoint}, made for this bundle, is not there")
            return None
        if signers[-1] != self._signer:
            text = "made for this bundle, is signed with another key than its manifest"
            self._report.broken("checkpoints", f"checkpoint {about.checkpoint}, {text}")
            return None
        self._report.proved("checkpoints", f"{len(found.shown)} that name its runs are signed, in order")
        return found

    def _may_sign(self, n: int, key: bytes, signers: list[bytes]) -> bool:
        """Is it the key of the checkpoint before, or one that follows it?"""
        if signers and signers[-1] != key:
            broken, trouble = trouble_between(signers[-1], key, self._known, signers)
            if broken:
                self._report.broken("checkpoints", f"checkpoint {n}: {trouble}")
                return False
            if trouble:
                self._report.unproved("checkpoints", f"checkpoint {n}: {trouble}")
        if not signers or signers[-1] != key:
            signers.append(key)
        return True

    def _run(self, one: Included, about: About, checkpoints: _Checkpoints) -> RunParts | None:
        what = f"run {one.id}"
        named = checkpoints.named.get(one.id, [])
        chain = Chain(head=genesis(one.id))
        marks = {said.seq for _, said in named}
        try:
            parts = read_run(one.id, self._bodies(one, chain, marks))
        except ValueError as error:
            told = f"{error.error_count()} fields" if isinstance(error, ValidationError) else "its text"
            self._report.unproved(what, f"an event after row {chain.seq} cannot be read here: {told}")
            return None
        if chain.trouble:
            self._report.broken(what, chain.trouble)
            return None
        for n, said in named:
            if chain.marks.get(said.seq, b"").hex() != said.head:
                self._report.broken(what, f"row {said.seq}, for which checkpoint {n} was signed, is not in the record")
                return None
        changed = changed_at_rest(named)
        if changed is not None and not one.forgotten:
            self._report.broken(what, CHANGED.format(*changed))
            return None
        last = named[-1][1] if named and named[-1][0] == about.checkpoint else None
        stands = (one.seq, one.head, one.status, one.rows)
        if last is None or stands != (chain.seq, chain.head.hex(), last.status, chain.rows) or last.seq != chain.seq:
            self._report.broken(what, "the record does not end where the checkpoint of this bundle says")
            return None
        told_by_record = (one.agent, one.parent)
        if parts.events and told_by_record != (parts.agent, parts.parent):
            self._report.broken(what, "its manifest names another agent or parent than its record")
            return None
        if chain.gone and chain.gone != chain.rows:
            self._report.broken(what, f"{chain.gone} of its rows have lost their content, and others have not")
            return None
        if one.forgotten != bool(chain.gone):  # so that custody must say who deleted it
            self._report.broken(what, "its manifest and its record do not agree on whether its content was deleted")
            return None
        if {said.status for _, said in named if said.seq == one.seq} != {one.status}:
            self._report.broken(what, "two checkpoints of the same place in it do not agree on its status")
            return None
        if parts.events and parts.status != one.status:
            self._report.broken(what, f"its checkpoint calls it {one.status}, and its record {parts.status}")
            return None
        self._report.proved(what, _words(one, chain, parts))
        if chain.gone:
            text = "its content was deleted: what was said and done, and whether it was stopped, is not known"
            self._report.unproved(what, text)
        return parts

    def _family(self, about: About, runs: Sequence[RunParts]) -> None:
        """Whoever is here as a child, or is named as one that is not, is one by the records."""
        if self._report.is_broken() or len(runs) != len(about.runs):
            return
        known = {one.id for one in about.runs}
        named = {child for parts in runs for child in parts.children}
        deleted = any(one.forgotten for one in about.runs)
        for one in about.runs[1:]:
            if one.parent not in known or (one.id not in named and not deleted):
                self._report.broken(f"run {one.id}", "it is in here as a child, and no record here names it as one")
                return
        listed = about.children_not_included
        fits = listed == sorted(set(listed) - known) and named - known <= set(listed)
        if not fits or (not deleted and named - known != set(listed)):
            self._report.broken("manifest", "it names other child runs than the records")

    def _bodies(self, one: Included, chain: Chain, marks: Collection[int]) -> Iterator[str | None]:
        """The rows of a record, followed as they are read; ends where they do not fit."""
        name = f"{one.folder}/{shapes.RECORD}"
        for raw in self._reader.lines(name, self._sizes[name]):
            line = _read(RecordLine, raw, name)
            if not follow_row(chain, line.seq, line.at, line.step, _content(line), _hex(line.hash)):
                return
            if line.seq in marks:
                chain.marks[line.seq] = chain.head
            if line.gone is not None:
                chain.gone += 1
            yield line.body

    def _custody(self, about: About) -> list[HouseEvent] | None:
        raw = self._reader.whole(shapes.CUSTODY, shapes.MOST_OF_CUSTODY)
        try:
            listed = from_json(raw, allow_inf_nan=False)
            events = [decode_house(line.encode()) for line in raw.decode()[1:-1].split(",\n")] if listed else []
            fits = is_array(listed) and custody_file(events) == raw
        except ValueError:
            fits, events = False, []
        if not fits:
            self._report.broken("custody", "it cannot be read")
            return None
        told = {event.run for event in events if isinstance(event, RunForgotten)}
        for one in about.runs:
            if one.forgotten != (one.id in told):
                self._report.broken("custody", f"it does not say who deleted the content of run {one.id}, and why")
                return None
        return events

    # --- what follows from it -------------------------------------------------------------------------------

    def _derived(self, about: About, runs: list[RunParts], clocks: Clocks, custody: list[HouseEvent]) -> None:
        """Transcript, stops, ledger and report are made again, and must be the same to the byte."""
        if about.derived != shapes.DERIVED:
            version = about.versions.get("standfast", "unknown")
            text = (
                f"they were made in another way: compare them with the version it claims, standfast {one_line(version)}"
            )
            self._report.unproved("transcript, stops, ledger, report", text)
            return
        if len(runs) != len(about.runs):
            return
        for one, parts in zip(about.runs, runs, strict=True):
            for name, content in parts.files().items():
                self._same(f"{one.folder}/{name}", [content])
        self._same(shapes.CLOCKS, [clocks.file()])
        self._same(shapes.README, [readme(about)])
        self._same(shapes.REPORT, report_page(about, runs, clocks, custody))
        models = sorted({model for parts in runs for model in parts.models})
        if about.models != models:
            self._report.broken("manifest", "it names other models than the records")
        if not self._report.is_broken():
            self._report.proved("transcript, stops, ledger, report", "made again from the records: they say the same")

    def _same(self, name: str, content: Iterable[bytes]) -> None:
        digest = sha256()
        for piece in content:
            digest.update(piece)
        found = sha256()
        for piece in self._reader.pieces(name, self._sizes[name]):
            found.update(piece)
        if found.digest() != digest.digest():
            self._report.broken(name, "it says something else than the record")

    def _anchor(self, about: About, checkpoints: _Checkpoints, anchor: Iterable[str] | None) -> Anchored:
        if about.anchor_lines:
            self._anchor_inside(checkpoints)
        if anchor is None:
            text = "whether the end was cut off before it was signed is not known: give --anchor"
            self._report.unproved("anchor", text)
            return Anchored()
        anchored: set[int] = set()
        later: list[tuple[int, float]] = []
        for n, at, hash_ in anchor_lines(anchor):
            known = checkpoints.hashes.get(n)
            if known is not None and known != hash_:
                self._report.broken("anchor", f"checkpoint {n}, which was anchored, is another one here")
                return Anchored(given=True)
            if known is not None:
                anchored.add(n)
            elif n > about.checkpoint:
                later.append((n, at))
        whole = True
        for one in about.runs:
            covered = max((said.seq for n, said in checkpoints.named.get(one.id, []) if n in anchored), default=0)
            if covered < one.seq:
                whole = False
                text = f"events {covered + 1} to {one.seq} are in no checkpoint that this anchor holds"
                self._report.unproved("anchor", f"run {one.id}: {text}")
            else:
                self._report.proved("anchor", f"run {one.id}: the anchor holds a checkpoint of all {one.seq} events")
            if later and not one.forgotten:  # to a forgotten run nothing is added any more
                text = f"run {one.id} was {one.status} then, and the anchor goes on to checkpoint {max(later)[0]}"
                self._report.limits.append(f"{text}: {_what_may_follow(one.status)}")
        if about.checkpoint not in anchored:
            newest = max(anchored, default=0)
            text = f"that it still stood so at checkpoint {about.checkpoint}, made for this bundle: "
            self._report.claims.append(f"{text}the anchor holds {f'checkpoint {newest}' if newest else 'none of it'}")
        early = [n for n, at in later if at < about.made.at]
        if early:
            text = f"checkpoint {early[0]} was anchored before this bundle says it was made, and is not in it"
            self._report.unproved("anchor", f"{text}: the clock was set back, or the end was cut off")
        return Anchored(given=True, covered=whole, last=about.checkpoint in anchored)

    def _anchor_inside(self, checkpoints: _Checkpoints) -> None:
        raw = self._reader.whole(shapes.ANCHOR, self._sizes[shapes.ANCHOR])
        for n, _, hash_ in anchor_lines(raw.decode("utf-8", "replace").splitlines()):
            if checkpoints.hashes.get(n) != hash_:
                self._report.broken(shapes.ANCHOR, f"checkpoint {n} is another one there")

    def _tell(self, about: About, clocks: Clocks, custody: list[HouseEvent]) -> None:
        for jump in clocks.jumps:
            way = "forward" if jump.seconds > 0 else "back"
            text = f"set {way} by {abs(jump.seconds):.0f} s between {jump.after} and {jump.before}"
            self._report.proved("clock", text)
        self._report.claims += [one_line(f"{what}: {told}") for what, told in claims_of(about, custody)]
        first = about.runs[0]
        made = self._report.as_of = when(about.made.at)
        self._report.limits.append(f"what came after {made}: run {first.id} was {first.status} then")
        if about.children_not_included:
            names = ", ".join(about.children_not_included[:10])
            self._report.limits.append(f"its child runs {names}: they are named, and not in the bundle")
        if about.directive.state == "sealed":
            self._report.limits.append("what is in the sealed part: only its recipients can open it")
        self._report.limits += [*LIMITS, SIGNING_LIMIT, KEY_LIMIT]


def _what_may_follow(status: str) -> str:
    """An end is not the last word: calls outlive runs, and servers tell of their clients when they know."""
    if status in ENDED:
        return "a late result, or what a client had been handed, may have been noted after that, and is not in here"
    return "what it did after that is not in here"


def _read(model: type[M], raw: bytes, name: str) -> M:
    """A line or a document in the only form in which it is written."""
    try:
        found = model.model_validate_json(raw)
        fits = found.model_dump_json().encode() == raw
    except (ValidationError, UnicodeEncodeError) as error:
        raise NotABundle(f"{name} cannot be read: it is not what a bundle has there") from error
    if not fits:
        raise NotABundle(f"{name} is not written as a bundle writes it")
    return found


def _expected(about: About) -> set[str]:
    """The parts that a bundle that says this of itself has."""
    folders = [shapes.RUN_FOLDER, *(f"children/{index}" for index in range(1, len(about.runs)))]
    if [one.folder for one in about.runs] != folders or len({one.id for one in about.runs}) != len(about.runs):
        raise NotABundle("its manifest contradicts itself")
    names = {f"{folder}/{name}" for folder in folders for name in shapes.RUN_PARTS}
    names |= {shapes.README, shapes.REPORT, shapes.CHECKPOINTS, shapes.CLOCKS, shapes.CUSTODY}
    if about.directive.state == "sealed":
        names.add(shapes.SEALED)
    return names | ({shapes.ANCHOR} if about.anchor_lines else set())


def _stated(line: CheckpointLine, keys: Collection[bytes]) -> tuple[Shown | None, str, str]:
    """What a checkpoint says, its hash, and what is wrong with it."""
    doc, key, signature = line.doc.encode(), _hex(line.key), _hex(line.signature)
    if keys and key not in keys:
        return None, "", f"it is signed with key {fingerprint(key)}, which is none of those you trust"
    if not verify_signature(key, DOMAIN + doc, signature):
        return None, "", "its signature does not fit"
    try:
        said = Shown.model_validate_json(doc)
    except ValidationError:
        return None, "", "it cannot be read"
    hash_ = hash_of(CheckpointRow(said.n, said.at, doc, key, signature))
    if any(stood_hash(one.model_dump()) not in said.runs for one in line.named):
        return said, hash_, "it does not say what is told of it"
    return said, hash_, ""


def _content(line: RecordLine) -> bytes:
    if line.gone is not None:
        return _hex(line.gone) if line.body is None and line.state is None else b""
    if line.body is None:
        return b""
    state = NO_STATE if line.state is None else _hex(line.state)
    return sha256(line.body.encode()).digest() + state


def _hex(text: str) -> bytes:
    """Empty for what is no hex: nothing fits that."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""


def _words(one: Included, chain: Chain, parts: RunParts) -> str:
    if chain.gone:
        return f"{one.seq} events have their place by hashes, signed for up to the last one; their content is deleted"
    return f"{one.seq} events from the first on, {len(parts.stops)} stops, signed for up to the last one"
