"""What is in an evidence bundle, and in which form: shared by whoever writes one and whoever checks one."""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

from pydantic import BaseModel

from standfast.evidence.statements import Named

FORMAT: Final = 1
DERIVED: Final = 7  # rises when the same record gives other parts; who knows another one cannot compare them
DOMAIN: Final = b"standfast bundle\n"

MANIFEST: Final = "manifest.json"
SIGNATURE: Final = "manifest.sig"
README: Final = "README.txt"
REPORT: Final = "report.html"
CHECKPOINTS: Final = "checkpoints.jsonl"
CLOCKS: Final = "clocks.json"
CUSTODY: Final = "custody.json"
ANCHOR: Final = "anchor.jsonl"
KEYS: Final = "keys.jsonl"  # only of a store whose key has changed
SEALED: Final = "sealed/directive.age"
RECORD: Final = "record.jsonl"
RUN_PARTS: Final = (RECORD, "transcript.json", "stops.json", "ledger.json", "redactions.json")
RUN_FOLDER: Final = "run"

MOST_BYTES: Final = 512 << 20  # of all parts together, as they are when unpacked
MOST_OF_MANIFEST: Final = 4 << 20
MOST_OF_LINE: Final = 64 << 20
MOST_OF_KEYS: Final = 1 << 20
MOST_OF_CUSTODY: Final = 64 << 20
MOST_CHILDREN: Final = 1000
MOST_CHECKPOINTS: Final = 2000  # the first that names the run, and the newest

_FOLDER = r"(?:run|children/[1-9][0-9]{0,3})"
_NAMES = re.compile(
    "|".join(
        [
            *map(re.escape, (README, REPORT, CHECKPOINTS, CLOCKS, CUSTODY, ANCHOR, KEYS, SEALED)),
            *(rf"{_FOLDER}/{re.escape(name)}" for name in RUN_PARTS),
        ]
    )
)


def is_part(name: str) -> bool:
    """May a bundle have a part of this name? The manifest and its signature are no parts."""
    return _NAMES.fullmatch(name) is not None


class _Strict(BaseModel, extra="forbid", strict=True):
    """Read as it was written, or not at all."""

    def line(self) -> bytes:
        """The only way to write it."""
        return self.model_dump_json().encode()


class RecordLine(_Strict):
    """A row of a record. The state is shown by its digest alone: it is not redacted."""

    seq: int
    at: float
    step: int | None
    body: str | None  # None: its content was deleted
    state: str | None
    gone: str | None
    hash: str


class CheckpointLine(_Strict):
    """A checkpoint: what was signed of it, and what it says of the runs of the bundle."""

    doc: str
    key: str
    signature: str
    named: list[Named]


class Part(_Strict):
    """A file of the bundle."""

    name: str
    size: int
    sha256: str


class Made(_Strict):
    """When the bundle was made, by whom, and by which way they came: as of the checkpoint that was made for it."""

    at: float
    by: str | None
    route: str


class Included(_Strict):
    """A run whose record is in the bundle, as it stood then."""

    id: str
    folder: str
    agent: str
    parent: str | None
    status: str
    seq: int
    rows: int
    head: str
    forgotten: bool


DirectiveState: TypeAlias = Literal["sealed", "no_recipients", "not_available", "none"]


class Directive(_Strict):
    """What became of the agent's instructions; their text is in the sealed part or nowhere."""

    state: DirectiveState
    why: str
    sealed_for: list[str]
    salted_sha256: str | None  # of the salt, which is in the sealed part, and the text


class About(_Strict):
    """What the bundle says of itself; the report is made from this and the records alone."""

    format: int
    derived: int
    made: Made
    versions: dict[str, str]
    models: list[str]
    runs: list[Included]  # the first is the one that was asked for
    children_not_included: list[str]
    checkpoint: int  # the one that was made for this bundle
    checkpoints_left_out: int
    key: str  # fingerprint of the key that signs
    directive: Directive
    anchor_lines: int


class Manifest(_Strict):
    """What is signed."""

    about: About
    parts: list[Part]


class Signature(_Strict):
    """Who signed it."""

    key: str
    signature: str
