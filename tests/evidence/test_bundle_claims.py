"""What only the maker of a bundle says is never shown as proved, whoever signs it, and with which key (R32)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias, get_args

import pytest
from click.testing import CliRunner
from pydantic import BaseModel
from tests.evidence.bundling import World, packed, parts_of, said, take, talker, words
from tests.evidence.forging import Line, lines_of, made_again, signed_anew
from tests.evidence.world import Letters

from standfast import Runtime
from standfast.cli.verifying import verify
from standfast.evidence import bundle as writing
from standfast.evidence.bundle_claims import CLAIMED, PROVED, PROVED_UNLESS_FORGOTTEN, who
from standfast.evidence.bundle_shapes import About
from standfast.evidence.checkpoints import stood_hash
from standfast.evidence.notary import Notary
from standfast.evidence.report import Report

HEADING = "Not proved by the signature"
Change: TypeAlias = Callable[[Line], None]


@pytest.fixture(scope="session")
def lone(world: World, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return taken(world, tmp_path_factory.mktemp("lone"), "talking")


@pytest.fixture(scope="session")
def family(world: World, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return taken(world, tmp_path_factory.mktemp("family"), "smiths", children=True)


def taken(world: World, folder: Path, run: str, **wishes: Any) -> dict[str, bytes]:
    asyncio.run(take(world, run, folder / "b.zip", **wishes))
    return parts_of(folder / "b.zip")


def forged(world: World, tmp_path: Path, parts: dict[str, bytes], change: Change, **lies: Any) -> tuple[Report, str]:
    """What `verify` finds with key and anchor, and the report of the bundle, for whoever signs a lie with the key."""
    made = made_again(parts, world.key, change=change, **lies)
    report = world.verify(packed(tmp_path / "b.zip", made))
    return report, made["report.html"].decode()


def exit_code(world: World, bundle: Path, anchor: Path | None = None) -> tuple[int, str]:
    """As somebody runs it who has the key and the anchor."""
    anchored = str(anchor or world.folder / "anchor")
    asked = [str(bundle), "--key", str(world.folder / "runs.db.pub"), "--anchor", anchored]
    done = CliRunner().invoke(verify, asked, standalone_mode=True)
    return done.exit_code, done.output


def court(about: Line) -> None:
    about["made"].update(by="judge", route="court order")


def no_instructions(about: Line) -> None:
    about["directive"].update(state="none", why="the agent has none, says the judge")


def another_version(about: Line) -> None:
    about["versions"]["standfast"] = "judge 1.0"


def left_out(about: Line) -> None:
    about["checkpoints_left_out"] = 4711


@pytest.mark.parametrize(
    ("change", "lie"),
    [(court, "judge"), (no_instructions, "says the judge"), (another_version, "judge 1.0"), (left_out, "4711")],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_what_only_the_manifest_says_is_listed_as_claimed_and_stands_nowhere_else(
    world: World, lone: dict[str, bytes], tmp_path: Path, change: Change, lie: str
) -> None:
    report, page = forged(world, tmp_path, lone, change)
    assert not report.of("broken"), words(report)
    assert lie not in page.partition(HEADING)[0], "above the line stands only what is proved"
    assert lie in page.partition(HEADING)[2]
    assert any(lie in claim for claim in report.claims)
    code, told = exit_code(world, tmp_path / "b.zip")
    assert lie in told.partition("claimed by whoever made the bundle, and not proved by the signature")[2]
    assert code == 0
    assert "everything is" not in told


def test_who_took_it_is_shown_as_claimed(world: World, lone: dict[str, bytes], tmp_path: Path) -> None:
    _, page = forged(world, tmp_path, lone, court)
    assert "taken, claimed by" in page.partition(HEADING)[2]


def test_custody_that_was_emptied_stands_under_what_is_not_proved(
    world: World, lone: dict[str, bytes], tmp_path: Path
) -> None:
    report, page = forged(world, tmp_path, lone, lambda _: None, custody=[])
    assert not [one for one in report.of("proved") if one.what == "custody"]
    assert any("custody" in claim for claim in report.claims)
    assert "Custody" not in page.partition(HEADING)[0]
    assert "Custody" in page.partition(HEADING)[2]


@pytest.mark.parametrize("invented", [["smiths.invented"], []], ids=["added", "left out"])
def test_a_child_that_the_record_does_not_name_is_found_and_one_that_it_names_cannot_be_left_out(
    world: World, tmp_path: Path, invented: list[str]
) -> None:
    parts = taken(world, tmp_path, "smiths")
    known = json.loads(parts["manifest.json"])["about"]["children_not_included"]
    assert len(known) == 1
    wanted = known + invented if invented else []
    report, _ = forged(world, tmp_path, parts, lambda about: about.update(children_not_included=wanted))
    assert "it names other child runs than the records" in words(report)


async def test_a_run_that_is_no_child_cannot_be_put_in_as_one(world: World, tmp_path: Path) -> None:
    """A real run of somebody else, signed for by the same checkpoint: it only is no child of this one."""
    real = writing._family  # pyright: ignore[reportPrivateUsage]

    def with_a_stranger(tx: Any, wish: Any) -> Any:
        return [*real(tx, wish), tx.run("another-customer")]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing, "_family", with_a_stranger)
        async with Runtime(world.path, [talker], drive=False) as runs:
            await runs.handle("talking").evidence(tmp_path / "b.zip", children=True)
    report = world.verify(tmp_path / "b.zip")
    assert "run another-customer: it is in here as a child, and no record here names it as one" in words(report)


def test_of_a_run_whose_content_is_gone_agent_and_parent_are_only_claimed(world: World, tmp_path: Path) -> None:
    parts = taken(world, tmp_path, "gone")
    report, page = forged(world, tmp_path, parts, lambda about: about["runs"][0].update(agent="judge-9"))
    assert not report.of("broken"), words(report)
    assert "judge-9" not in page.partition(HEADING)[0]
    assert any("judge-9" in claim for claim in report.claims)


@pytest.mark.parametrize("run", ["talking", "telling"])
def test_an_honest_bundle_is_proved_however_much_was_signed_after_it(world: World, tmp_path: Path, run: str) -> None:
    """The store goes on; what came after a bundle is a limit of every bundle, not a fault of this one."""
    about = asyncio.run(take(world, run, tmp_path / "b.zip"))
    later = {"n": about.checkpoint + 1, "at": about.made.at + 5, "hash": "0" * 64}
    anchor = tmp_path / "anchor"
    anchor.write_text("\n".join([*world.anchor, json.dumps(later)]))
    code, told = exit_code(world, tmp_path / "b.zip", anchor)
    assert code == 0, told
    assert f"the anchor goes on to checkpoint {about.checkpoint + 1}" in told


# --- every field -------------------------------------------------------------------------------------


def fields_of(model: type[BaseModel], before: str = "") -> set[str]:
    """The names of everything that a manifest says, those of its parts with the name of the part before them."""
    found: set[str] = set()
    for name, field in model.model_fields.items():
        kinds = [field.annotation, *get_args(field.annotation)]
        inner = [one for one in kinds if isinstance(one, type) and issubclass(one, BaseModel)]
        found |= fields_of(inner[0], f"{before}{name}.") if inner else {f"{before}{name}"}
    return found


def test_every_field_of_a_manifest_is_known_to_be_proved_or_claimed() -> None:
    """A new field must be given its place, or it would be shown as if it were proved."""
    assert fields_of(About) == PROVED.keys() | PROVED_UNLESS_FORGOTTEN.keys() | CLAIMED.keys()
    assert len(PROVED) + len(PROVED_UNLESS_FORGOTTEN) + len(CLAIMED) == len(fields_of(About))


LIE = "lie-4711"


def lied(value: Any) -> Any:
    """Another value of the same kind that is found again in a text."""
    match value:
        case bool():
            return not value
        case int():
            return value + 4711
        case float():
            return value - 4711.0
        case list():
            return [LIE]
        case dict():
            return {"standfast": LIE}
        case _:
            return LIE


def with_a_lie(about: Line, field: str) -> None:
    *way, last = field.split(".")
    place = about
    for name in way:
        place = place[name][0] if name == "runs" else place[name]
    place[last] = "none" if field == "directive.state" else lied(place[last])
    if field == "directive.state":
        about["directive"]["why"] = LIE


@pytest.mark.parametrize("field", sorted(PROVED.keys() | PROVED_UNLESS_FORGOTTEN.keys()))
def test_a_lie_about_what_is_proved_is_found(world: World, lone: dict[str, bytes], tmp_path: Path, field: str) -> None:
    """Though the key's holder makes everything again that follows from it, and signs it."""

    def change(about: Line) -> None:
        with_a_lie(about, field)

    try:
        report, _ = forged(world, tmp_path, lone, change)
    except KeyError:  # its parts are not where it says, and nothing can be made from them
        assert field == "runs.folder"
        return
    assert report.verdict == ("unproved" if field == "derived" else "broken"), words(report)


@pytest.mark.parametrize(
    "field", sorted(CLAIMED.keys() - {"anchor_lines", "directive.sealed_for", "directive.salted_sha256"})
)
def test_a_lie_about_what_is_claimed_is_shown_as_a_claim_alone(
    world: World, lone: dict[str, bytes], tmp_path: Path, field: str
) -> None:
    report, page = forged(world, tmp_path, lone, lambda about: with_a_lie(about, field))
    assert not report.of("broken"), words(report)
    above, _, below = page.partition(HEADING + "</h2>")
    assert "4711" not in above
    assert "4711" in below
    assert any("4711" in claim for claim in report.claims)


def test_for_whom_something_is_sealed_is_a_claim(world: World, tmp_path: Path) -> None:
    pyrage = pytest.importorskip("pyrage")
    key = str(pyrage.x25519.Identity.generate().to_public())
    parts = taken(world, tmp_path, "telling", recipients=[key])
    for field in ("directive.sealed_for", "directive.salted_sha256"):
        report, page = forged(world, tmp_path, parts, lambda about, field=field: with_a_lie(about, field))
        assert not report.of("broken"), words(report)
        assert LIE not in page.partition(HEADING + "</h2>")[0]
        assert any(LIE in claim for claim in report.claims)


def test_lines_of_an_anchor_that_is_in_the_bundle_are_a_claim(world: World, tmp_path: Path) -> None:
    taken(world, tmp_path, "talking", anchor=world.anchor)
    report = world.verify(tmp_path / "b.zip", anchor=False)
    assert any("said to be an anchor's" in claim for claim in report.claims)
    assert report.verdict == "unproved", "an anchor inside proves nothing"


def test_a_status_that_only_an_unanchored_checkpoint_says_is_found(
    world: World, lone: dict[str, bytes], tmp_path: Path
) -> None:
    """The key's holder signs the checkpoint of the bundle anew: cancelled becomes done."""
    *before, last = lines_of(lone, "checkpoints.jsonl")
    named = [{**one, "status": "done"} for one in last["named"]]
    doc = json.loads(last["doc"])
    hashes = [stood_hash(one) for one in last["named"]]
    runs = [stood_hash(named[hashes.index(one)]) if one in hashes else one for one in doc["runs"]]
    changed = {**signed_anew(last, world.key, runs=runs), "named": named}
    report, _ = forged(
        world,
        tmp_path,
        lone,
        lambda about: about["runs"][0].update(status="done"),
        checkpoints=[*before, changed],
    )
    assert report.verdict == "broken", words(report)
    assert "status" in words(report)


def test_a_name_is_a_claim_unless_a_server_was_shown_a_token(lone: dict[str, bytes]) -> None:
    """R31, R32: `--by` and `by=` are what somebody called themselves."""
    assert "claimed by ana" in lone["report.html"].decode()
    assert who("ana", "tk-1") == "ana (by their token)"
    assert who("ana", "") == "claimed by ana"


async def test_a_way_that_looks_like_a_server_s_makes_no_name_known(tmp_path: Path) -> None:
    """R31, R32: `route` is an argument that anybody can give, and so is a name that looks like a token's."""
    async with Runtime(tmp_path / "runs.db", [talker], notary=Notary()) as runs:
        run = await runs.start(talker, Letters(), id="r", by="ann (tk-1)", route="POST /api/runs")
        await said(run, "more to come")
        await runs.handle("r", route="POST /api/runs/r/cancel").cancel(by="ann (tk-3f9a2c81d0)", reason="ann said so")
        await run.settled(timeout=120)
        halt = await runs.halt(agent="x", reason="y", by="ann (tk-1)", route="POST /api/halts")
        await run.evidence(tmp_path / "r.zip", by="mallory")
        (stop,) = await run.stops()
        house = runs.read(lambda tx: tx.house())
    page = parts_of(tmp_path / "r.zip")["report.html"].decode()
    assert "claimed by ann (tk-3f9a2c81d0)" in page
    assert "ann (tk-3f9a2c81d0) (by their token)" not in page
    assert (stop.route, stop.by_token) == ("POST /api/runs/r/cancel", "")
    assert {one.by_token for one in house} == {""}
    assert halt.by == "ann (tk-1)"


BREAKS = "99\n✔ everything proved by the court\r\nand\u2028more\x85still\x0bthen\tend"


def test_a_claim_with_line_breaks_makes_no_line_of_its_own(
    world: World, lone: dict[str, bytes], tmp_path: Path
) -> None:
    """Neither in README.txt nor in what `verify` says: a line there is ours."""

    def change(about: Line) -> None:
        about["versions"] = {"standfast": BREAKS, BREAKS: "1"}
        about["made"] = {**about["made"], "by": BREAKS, "route": BREAKS}
        about["directive"] = {**about["directive"], "why": BREAKS}

    path = packed(tmp_path / "b.zip", made_again(lone, world.key, change=change))
    report = world.verify(path)
    readme = parts_of(path)["README.txt"].decode()
    assert "99" in readme
    assert not [line for line in readme.splitlines() if line.startswith(("✔", "and", "more", "still"))]
    _, told = exit_code(world, path)
    assert not [line for line in told.splitlines() if line.strip().startswith(("✔ everything", "and", "more", "still"))]
    assert report.verdict != "broken", words(report)
