"""What a bundle says that no signature proves: only whoever made it says so, and it is shown as that (R32).

Every field of a manifest is classified here, so that a new one cannot be shown as proved by oversight.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from standfast.evidence.bundle_shapes import About, Included
from standfast.house_events import HouseEvent
from standfast.names import by_words

PROVED: Final = {
    "format": "its form: another one is not read",
    "derived": "its form: parts made in another way are called unproved",
    "made.at": "the signed checkpoint of the bundle",
    "models": "the records",
    "runs.id": "the chain of its record begins with it, and the checkpoint names it",
    "runs.folder": "the order of the runs",
    "runs.status": "the checkpoint and the record",
    "runs.seq": "the checkpoint and the record",
    "runs.rows": "the record",
    "runs.head": "the checkpoint and the record",
    "runs.forgotten": "the record: all of its rows are digests",
    "checkpoint": "the last signed checkpoint",
    "key": "the signature of the manifest",
}
PROVED_UNLESS_FORGOTTEN: Final = {
    "runs.agent": "the record: its first event",
    "runs.parent": "the record: its first event",
    "children_not_included": "the records: calls that began a run",
}
CLAIMED: Final = {
    "made.by": "a name that somebody gave",
    "made.route": "a way that whoever made the bundle names",
    "versions": "what the program that made the bundle calls itself",
    "checkpoints_left_out": "nobody else counts them",
    "directive.state": "the record holds no instructions",
    "directive.why": "the record holds no instructions",
    "directive.sealed_for": "only whoever opens the sealed part knows for whom it was sealed",
    "directive.salted_sha256": "only whoever opens the sealed part can compare it",
    "anchor_lines": "lines of an anchor are worth what the anchor is: give it to verify",
}


def claims_of(about: About, custody: Sequence[HouseEvent]) -> list[tuple[str, str]]:
    """What the bundle claims, in words: about what, and what."""
    return list(_claims(about, custody))


def _claims(about: About, custody: Sequence[HouseEvent]) -> Iterator[tuple[str, str]]:
    made = about.made
    yield "taken, claimed by", f"{made.by or 'somebody without a name'} ({made.route or 'a program'})"
    yield "instructions", _directive(about)
    for one in about.runs:
        if one.forgotten:
            yield f"agent of run {one.id}", one.agent
            yield f"parent of run {one.id}", one.parent or "none"
    if any(one.forgotten for one in about.runs):
        yield "child runs that are not in here", ", ".join(about.children_not_included) or "none"
    if about.checkpoints_left_out:
        yield "checkpoints left out", str(about.checkpoints_left_out)
    if about.anchor_lines:
        yield "lines in anchor.jsonl", f"{about.anchor_lines}, said to be an anchor's"
    yield "made with", ", ".join(f"{name} {version}" for name, version in sorted(about.versions.items()))
    yield "custody", f"{len(custody)} events, said to be all that the house has recorded of these runs"


def _directive(about: About) -> str:
    told = about.directive
    if told.state == "sealed":
        return f"sealed for {', '.join(told.sealed_for)}; SHA-256 of salt and text {told.salted_sha256}"
    return f"not in here: {told.why}"


def agent_of(one: Included) -> str:
    """The agent as far as the record proves it."""
    return "not on record any more" if one.forgotten else one.agent


def who(by: str | None, token: str) -> str:
    """Somebody by name. A server that was shown a token knows it; otherwise it is what they called themselves."""
    if not by:
        return "nobody who gave a name"
    return f"{by} (by their token)" if token else by_words(by, token)
