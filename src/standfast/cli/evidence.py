"""`standfast evidence`: one signed file with everything on record of a run, for somebody who need not trust you."""

from __future__ import annotations

from pathlib import Path

import click

from standfast.cli.access import Access, find
from standfast.cli.options import Place, reaching, run_argument
from standfast.cli.saying import size
from standfast.cli.verifying import anchor_file
from standfast.errors import Misuse
from standfast.evidence.bundle_check import about_of
from standfast.evidence.bundle_shapes import About
from standfast.evidence.bundle_zip import placed
from standfast.evidence.sealing import recipients_from, refuse_secret


@click.command()
@run_argument
@click.option(
    "--output", "-o", required=True, type=click.Path(path_type=Path, dir_okay=False), help="The file, as run.zip."
)
@click.option(
    "--for",
    "recipients",
    multiple=True,
    metavar="age1...|FILE",
    help="Who may read the agent's instructions: an age public key, or a file with one a line; may be given again.",
)
@click.option("--children", is_flag=True, help="With the records of its child runs.")
@click.option(
    "--anchor",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file in which checkpoints were anchored: its lines about this run's are kept beside them.",
)
@click.option("--force", is_flag=True, help="Over a file that is there.")
@reaching
def evidence(
    place: Place,
    run: str,
    output: Path,
    recipients: tuple[str, ...],
    children: bool,
    anchor: Path | None,
    force: bool,
) -> None:
    """Write a signed evidence bundle of a run; that you took it is on record."""
    wanted = recipients_from([key for one in recipients for key in _keys(one)])
    lines = anchor_file(anchor) or ()

    async def take(access: Access) -> None:
        view = await find(access, run)
        with placed(output, force=force) as file:
            await access.evidence(view.id, file, wanted, children, lines)

    place.do(take)
    about = about_of(output)
    told = {"file": str(output), "bytes": output.stat().st_size, "about": about.model_dump(mode="json")}
    place.show(told, lambda: _page(output, about))


def _keys(given: str) -> list[str]:
    """A key as it is, or those in a file."""
    refuse_secret(given)
    if given.startswith("age1"):
        return [given]
    try:
        return Path(given).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise Misuse(
            f"{given} is no age public key and no file of them: {error}", hint="give age1..., or a file with one a line"
        ) from error


def _page(output: Path, about: About) -> list[str]:
    first = about.runs[0]
    lines = [
        f"{output}: {size(output.stat().st_size)}, {first.seq} events of run {first.id} ({first.status})",
        f"signed with key {about.key}, up to checkpoint {about.checkpoint}",
        f"instructions: {about.directive.why}",
    ]
    if about.children_not_included:
        lines.append(f"not in it: child runs {', '.join(about.children_not_included)} (--children)")
    lines.append(f"to check it: standfast verify {output} --key PUBLIC.pub --anchor ANCHOR")
    return lines
