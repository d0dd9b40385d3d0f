"""How large a bundle and its report may be: at each limit, below it and beyond it (R32, R34)."""

from __future__ import annotations

import html
import io
import re
from pathlib import Path

import pytest
from tests.evidence.bundling import World, packed, parts_of, take, words
from tests.stops.test_assembling import numbered, pause, reach, told

from standfast import Misuse
from standfast import events as ev
from standfast.evidence import bundle_shapes, bundle_zip, html_report, html_transcript, sealing, stop_timeline
from standfast.evidence.bundle_shapes import CUSTODY, MANIFEST, SIGNATURE
from standfast.evidence.bundle_zip import BundleReader, BundleWriter, NotABundle, as_line
from standfast.evidence.ledgers import Ledger
from standfast.evidence.run_parts import StopPlace, TranscriptPart
from standfast.evidence.sealing import recipients_from
from standfast.stop_records import StopRecord, stop_records
from standfast.transcripts import Said, Trip

HERE = "README.txt"


def test_all_parts_together_are_so_large_and_no_larger(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle_zip, "MOST_BYTES", 1_000)
    for size in (999, 1_000):
        with BundleWriter(io.BytesIO()) as out:
            out.part(HERE, [b"x" * (size - 500), b"x" * 500])
    with BundleWriter(io.BytesIO()) as out:
        out.part(HERE, [b"x" * 600])
        with pytest.raises(Misuse, match="the bundle would be larger"):
            out.part("report.html", [b"x" * 401])
    file = packed(tmp_path / "b.zip", parts_of(bundle))
    total = sum(map(len, parts_of(bundle).values()))
    assert total > file.stat().st_size
    monkeypatch.setattr(bundle_zip, "MOST_BYTES", total)
    with BundleReader(file) as reader:
        assert MANIFEST in reader.names
    monkeypatch.setattr(bundle_zip, "MOST_BYTES", total - 1)
    with pytest.raises(NotABundle, match="larger than any bundle"):
        BundleReader(file)
    monkeypatch.setattr(bundle_zip, "MOST_BYTES", file.stat().st_size - 1)
    with pytest.raises(NotABundle, match="more than any bundle"):
        BundleReader(file)


@pytest.mark.parametrize(("part", "limit"), [(MANIFEST, "MOST_OF_MANIFEST"), (CUSTODY, "MOST_OF_CUSTODY")])
def test_manifest_and_custody_are_so_large_and_no_larger(
    world: World, bundle: Path, monkeypatch: pytest.MonkeyPatch, part: str, limit: str
) -> None:
    size = len(parts_of(bundle)[part])
    monkeypatch.setattr(bundle_shapes, limit, size)
    assert world.verify(bundle).verdict == "proved"
    monkeypatch.setattr(bundle_shapes, limit, size - 1)
    report = world.verify(bundle)
    assert report.verdict == "broken" and f"{part} is larger than the {size - 1} bytes" in words(report)


@pytest.mark.parametrize("limit", ["MOST_OF_MANIFEST", "MOST_OF_CUSTODY", "MOST_OF_LINE"])
async def test_a_bundle_that_nobody_could_verify_is_not_written(
    world: World, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    longest = max(map(len, parts_of(bundle)["run/record.jsonl"].split(b"\n")))
    monkeypatch.setattr(bundle_zip, limit, longest - 1 if limit == "MOST_OF_LINE" else 100)
    with pytest.raises(Misuse, match="would be larger than") as refused:
        await take(world, "talking", tmp_path / "b.zip")
    assert "nothing was written" in refused.value.hint
    assert list(tmp_path.iterdir()) == []


def test_a_line_of_a_part_is_so_long_and_no_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever in the part it stands, and whether its end comes or not."""
    monkeypatch.setattr(bundle_zip, "MOST_OF_LINE", 100_000)
    for length, ends in ((99_999, b"\n"), (100_000, b"\nshort\n")):
        part = b"first\n" + b"x" * length + ends
        with BundleReader(packed(tmp_path / "b.zip", {HERE: part})) as reader:
            assert max(map(len, reader.lines(HERE, 1_000_000))) == length
    for ends in (b"\nshort\n", b"x" * 200_000):
        part = b"first\n" + b"x" * 100_001 + ends
        with BundleReader(packed(tmp_path / "b.zip", {HERE: part})) as reader, pytest.raises(NotABundle, match="line"):
            list(reader.lines(HERE, 1_000_000))
    assert len(as_line(b"x" * 100_000)) == 100_001
    with pytest.raises(Misuse, match="a line of it"):
        as_line(b"x" * 100_001)


def test_parts_are_so_many_and_no_more(world: World, bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = len(parts_of(bundle))
    for most, verdict in ((parts + 1, "proved"), (parts, "proved"), (parts - 1, "broken")):
        monkeypatch.setattr(bundle_zip, "_MOST_ENTRIES", most)
        report = world.verify(bundle)
        assert report.verdict == verdict
        assert ("more than any bundle" in words(report)) == (verdict == "broken")


def test_a_bundle_of_the_most_children_has_no_more_parts_than_are_read() -> None:
    runs = bundle_shapes.MOST_CHILDREN + 1
    others = {HERE, "report.html", "checkpoints.jsonl", "clocks.json", CUSTODY, "anchor.jsonl", "sealed/directive.age"}
    assert runs * len(bundle_shapes.RUN_PARTS) + len({*others, MANIFEST, SIGNATURE}) <= bundle_zip._MOST_ENTRIES


async def test_children_are_so_many_and_no_more(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for most in (2, 1):
        monkeypatch.setattr(bundle_shapes, "MOST_CHILDREN", most)
        taken = await take(world, "smiths", tmp_path / f"{most}.zip", children=True)
        assert len(taken.runs) == 2, "it has one child"
    monkeypatch.setattr(bundle_shapes, "MOST_CHILDREN", 0)
    with pytest.raises(Misuse, match="more than 0 descendants"):
        await take(world, "smiths", tmp_path / "0.zip", children=True)
    assert not (tmp_path / "0.zip").exists()


async def test_checkpoints_are_the_first_and_the_newest_if_there_are_too_many(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shown(path: Path) -> int:
        return len(parts_of(path)["checkpoints.jsonl"].splitlines())

    whole = tmp_path / "whole.zip"
    await take(world, "talking", whole)
    there = shown(whole)
    assert there >= 2
    for most, left_out in ((there + 1, 0), (there + 1, 1), (2, there + 1)):  # each bundle adds one
        monkeypatch.setattr(bundle_shapes, "MOST_CHECKPOINTS", most)
        path = tmp_path / f"{most}-{left_out}.zip"
        taken = await take(world, "talking", path)
        assert (shown(path), taken.checkpoints_left_out) == (most, left_out)
        first, *_, last = parts_of(path)["checkpoints.jsonl"].splitlines()
        assert first == parts_of(whole)["checkpoints.jsonl"].splitlines()[0]
        assert b'\\"n\\":%d,' % taken.checkpoint in last
        report = world.verify(path)
        assert not report.is_broken(), words(report)


def test_recipients_are_so_many_and_no_more() -> None:
    age = pytest.importorskip("pyrage")
    keys = [str(age.x25519.Identity.generate().to_public()) for _ in range(sealing.MOST_RECIPIENTS + 1)]
    assert recipients_from([*keys[:-1], keys[0]]) == tuple(keys[:-1]), "one that is named twice counts once"
    with pytest.raises(Misuse, match="101 recipients are too many"):
        recipients_from(keys)


# --- the report -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_table_of_the_report_says_how_many_rows_it_leaves_out(more: int) -> None:
    table = html_report._table(("n",), [(n,) for n in range(html_report.MOST_ROWS + more)])
    assert table.count("<td ") == html_report.MOST_ROWS + min(more, 0)
    assert ("and 1 more, in the parts of the bundle" in table) == (more > 0)


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_report_shows_the_newest_tries_and_says_how_many_it_leaves_out(more: int) -> None:
    said = [Said(f"c{n}", f"text {n}.", partial=False) for n in range(html_transcript.MOST_TRIES + more)]
    page = "".join(html_transcript.transcript(TranscriptPart(said=said, stops=[]), []))
    assert page.count("<h3>") == html_transcript.MOST_TRIES + min(more, 0)
    assert ("text 0." in page, "1 earlier ones" in page) == (more <= 0, more > 0)


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_report_shows_so_much_of_a_try_and_says_how_much_it_leaves_out(more: int) -> None:
    text = "x" * (html_transcript.MOST_CHARACTERS + more)
    page = "".join(html_transcript.transcript(TranscriptPart(said=[Said("c", text, partial=False)], stops=[]), []))
    assert (text in page) == (more <= 0)
    half = html_transcript.MOST_CHARACTERS // 4
    assert (f"{len(text) - 2 * half} characters left out here: {half} to {len(text) - half}" in page) == (more > 0)


def test_a_report_of_a_long_text_shows_each_stop_and_mark_where_it_fell_and_never_elsewhere() -> None:
    """R31: "what follows was recorded after it" stands before what did follow."""
    text = "".join(f"<{n:07d}>" for n in range(100_000 // 9))
    place = StopPlace(stop=7, call="c", attempt=0, take=0, channel="text", characters=99_000)
    trip = Trip(channel="text", kind="directive", variant="plain", start=60_003, end=60_012, action="flag")
    said = Said("c", text, partial=True, marks=(30_006,), trips=(trip,))
    page = "".join(html_transcript.transcript(TranscriptPart(said=[said], stops=[place]), []))
    shown = html.unescape(re.sub("<[^>]*>", "", page))
    stop = "■ stop ? accepted at character 99000; what follows was recorded after it"
    assert f"{text[98_900:99_000]}{stop}{text[99_000:]}" in shown
    assert f"{text[29_900:30_006]}⚑ called suspicious here, at character 30006{text[30_006:30_100]}" in shown
    assert f"{text[60_003 - 100 : 60_003]}⚑ directive, plain{text[60_003:60_100]}" in shown
    assert html.unescape(*re.findall("<mark>(.*)</mark>", page)) == text[60_003:60_012]
    told = [
        (int(n), int(a), int(b)) for n, a, b in re.findall(r"(\d+) characters left out here: (\d+) to (\d+)", shown)
    ]
    assert len(told) == 3 and all(n == b - a for n, a, b in told)
    left = sum(n for n, _, _ in told)
    assert left >= len(text) - html_transcript.MOST_CHARACTERS
    pieces = re.split(r"\n… .* …\n", shown.partition("said")[2])
    assert all(text[b : b + 50] == piece[:50] for (_, _, b), piece in zip(told, pieces[1:], strict=True)), (
        "and the rest"
    )


@pytest.mark.parametrize("more", [0, 1])
def test_a_report_shows_the_text_around_so_many_marks_and_counts_the_others(more: int) -> None:
    count = html_transcript.MOST_PLACES + more
    said = Said("c", "x" * 1_000_000, partial=True, marks=tuple(10_000 + 9_000 * n for n in range(count)))
    page = "".join(html_transcript.transcript(TranscriptPart(said=[said], stops=[]), []))
    assert page.count("⚑") == html_transcript.MOST_PLACES
    assert ("with 1 marks left out here" in page) == (more > 0)
    assert page.count("x") <= html_transcript.MOST_CHARACTERS + 100


def _stop(clients: int) -> StopRecord:
    handed = [reach(client=f"client-{n}") for n in range(clients)]
    (stop,) = stop_records(numbered(pause(), ev.RunPaused(holds=["user"]), told(1, 2, *handed)))
    return stop


def test_clients_that_are_left_out_are_counted_and_no_two_rows_are_the_same() -> None:
    """Two tabs of one person; one of them had not been handed the end."""
    ana = [reach(client=f"client-{n}", by="ana", by_token="tk-1", seq=1 if n else 99) for n in range(2)]
    (stop,) = stop_records(numbered(pause(), ev.RunPaused(holds=["user"]), told(1, 2, *ana, left_out=10)))
    page = "".join(html_report._stop(stop, Ledger(stops=(), effects=(), left=())))
    rows = [row for row in page.split("<tr>") if ">ana<" in row]
    assert len(set(rows)) == 2
    assert all(f"client-{n}" in row for n, row in enumerate(rows))
    assert ["still behind" in row for row in rows] == [False, True]
    assert "10 more clients of server" in page


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_drawing_has_so_many_lines_and_always_the_end(more: int) -> None:
    fixed = len(list(stop_timeline.marks_of(_stop(0))))
    drawn = stop_timeline.drawing(_stop(stop_timeline.MOST - fixed + more))
    assert drawn.count('class="rail"') == stop_timeline.MOST + min(more, 0)
    assert "settled" in drawn.rsplit("<text", 2)[1], "the last line"
