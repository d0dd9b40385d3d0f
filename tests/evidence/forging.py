"""Bundles by somebody who has the store's key and makes all that follows from a lie again, so that it fits."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from pydantic_core import from_json, to_json
from tests.evidence.bundling import signed

from standfast.evidence.bundle_shapes import MANIFEST, About
from standfast.evidence.checkpoints import DOMAIN, hash_of
from standfast.evidence.clocks import clocks_of
from standfast.evidence.html_report import report_page
from standfast.evidence.keys import Key
from standfast.evidence.readme import readme
from standfast.evidence.run_parts import read_run
from standfast.evidence.statements import Shown
from standfast.house_events import decode_house
from standfast.rows import CheckpointRow

Line: TypeAlias = dict[str, Any]


def lines_of(parts: Mapping[str, bytes], name: str) -> list[Line]:
    """The lines of a part, each as what it says."""
    return [json.loads(line) for line in parts[name].splitlines()]


def hash_of_line(line: Line) -> str:
    """What the next checkpoint names this one by."""
    doc = line["doc"].encode()
    said = Shown.model_validate_json(doc)
    return hash_of(CheckpointRow(said.n, said.at, doc, bytes.fromhex(line["key"]), bytes.fromhex(line["signature"])))


def signed_anew(line: Line, key: Key, **changes: Any) -> Line:
    """A checkpoint that says something else, with a signature that fits it."""
    doc = to_json({**from_json(line["doc"]), **changes})
    return {**line, "doc": doc.decode(), "key": key.public.hex(), "signature": key.sign(DOMAIN + doc).hex()}


def made_again(
    parts: Mapping[str, bytes],
    key: Key,
    *,
    record: Sequence[Line] | None = None,
    checkpoints: Sequence[Line] | None = None,
    custody: Sequence[Line] | None = None,
    change: Callable[[Line], None] = lambda about: None,
) -> dict[str, bytes]:
    """A bundle with these lies in it. Whatever is made from them, and the signature, fits them."""
    about: Line = from_json(parts[MANIFEST])["about"]
    change(about)
    shown = About.model_validate(about)
    records = {one.folder: lines_of(parts, f"{one.folder}/record.jsonl") for one in shown.runs}
    if record is not None:
        records["run"] = list(record)
    checkpoints = lines_of(parts, "checkpoints.jsonl") if checkpoints is None else checkpoints
    custody = json.loads(parts["custody.json"]) if custody is None else custody
    told = {one.folder: read_run(one.id, [line["body"] for line in records[one.folder]]) for one in shown.runs}
    stops = [(run.run, run.stops) for run in told.values()]
    clocks = clocks_of([Shown.model_validate_json(line["doc"]) for line in checkpoints], stops)
    kept = [decode_house(to_json(one)) for one in custody]
    lies = {
        **parts,
        **{f"{folder}/{name}": made for folder, run in told.items() for name, made in run.files().items()},
        "run/record.jsonl": b"".join(to_json(line) + b"\n" for line in records["run"]),
        "checkpoints.jsonl": b"".join(to_json(line) + b"\n" for line in checkpoints),
        "custody.json": b"[" + b",\n".join(to_json(one) for one in custody) + b"]",
        "clocks.json": clocks.file(),
        "README.txt": readme(shown),
        "report.html": b"".join(report_page(shown, list(told.values()), clocks, kept)),
    }
    return signed(lies, key, change)
