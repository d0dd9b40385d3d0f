"""`standfast verify`: is a store or a bundle what was written, and who says so? Says what is proved, and what not."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from standfast.cli.codes import Code, Unreachable
from standfast.cli.options import say_json
from standfast.cli.saying import tell
from standfast.errors import Misuse
from standfast.evidence.bundle_check import is_bundle, verify_bundle
from standfast.evidence.keys import kept_beside
from standfast.evidence.report import Report, Verdict
from standfast.evidence.store_check import trusted_keys, verify_store
from standfast.odd_text import one_line

SIGNS: dict[Verdict, str] = {"proved": "✔", "unproved": "?", "broken": "✖"}
CODES: dict[Verdict, Code] = {"proved": Code.OK, "unproved": Code.UNPROVED, "broken": Code.BROKEN}
SHOWN = 20  # runs that are as they should be, before the rest is only counted


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--key",
    "key_files",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="The public key you trust, as a file; again for one that came after it. [of a store: the .pub beside it]",
)
@click.option(
    "--anchor", type=click.Path(path_type=Path, dir_okay=False), help="The file in which checkpoints were anchored."
)
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def verify(file: Path, key_files: tuple[Path, ...], anchor: Path | None, as_json: bool) -> None:
    """Follow every chain and signature of a store or an evidence bundle; 0 only if everything is proved."""
    click.get_current_context().meta["standfast.json"] = as_json
    if not file.exists():
        raise Unreachable(f"there is no {file}", hint="give the file of a store, or a bundle")
    keys = trusted_keys(key_files) if key_files else trusted_keys(()) if is_bundle(file) else ()
    lines = anchor_file(anchor)
    if is_bundle(file):  # it may be older than the last change of keys, which only the store knows
        report = verify_bundle(file, keys, lines, [kept for one in key_files for kept in kept_beside(one)])
    else:
        report = verify_store(file, keys, lines)
    if as_json:
        findings = [asdict(one) for one in report.findings]
        told = {"verdict": report.verdict, "words": report.words, "findings": findings}
        say_json({**told, "claimed": report.claims, "not_proved": report.limits})
    else:
        _tell(report)
    raise click.exceptions.Exit(CODES[report.verdict])


def anchor_file(anchor: Path | None) -> list[str] | None:
    """The lines of an anchor; Misuse if it cannot be read, or says nothing."""
    if anchor is None:
        return None
    try:
        lines = anchor.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise Misuse(
            f"the anchor {anchor} cannot be read: {error}", hint="give the file the checkpoints went to"
        ) from error
    if not lines:
        raise Misuse(f"the anchor {anchor} is empty", hint="give the file the checkpoints went to")
    return lines


def _tell(report: Report) -> None:
    """One line for each: names and claims are somebody else's, and none of them makes a line that looks like ours."""
    for verdict in ("proved", "unproved", "broken"):
        found = report.of(verdict)
        runs = [one for one in found if one.what.startswith("run ")] if verdict == "proved" else []
        left_out = runs[SHOWN:]
        for one in found:
            if one not in left_out:
                tell(one_line(f"{SIGNS[verdict]} {one.what}: {one.text}"))
        if left_out:
            tell(f"{SIGNS[verdict]} and {len(left_out)} more runs")
    if report.claims and report.verdict != "broken":
        tell("claimed by whoever made the bundle, and not proved by the signature:")
        for claim in report.claims:
            tell(f"  {one_line(claim)}")
    if report.verdict != "broken":
        tell("what no signature proves:")
        for limit in report.limits:
            tell(f"  {one_line(limit)}")
    tell(report.words)
