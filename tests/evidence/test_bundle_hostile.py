"""A file that somebody made to do harm is read as any other: slowly never, and to no harm (R32)."""

from __future__ import annotations

import io
import json
import os
import stat
import struct
import time
import tracemalloc
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic_core import from_json, to_json
from tests.evidence.bundling import MARKUP, World, packed, parts_of, signed, take, words

from standfast.evidence.bundle_check import is_bundle, verify_bundle
from standfast.evidence.bundle_shapes import MANIFEST
from standfast.evidence.html_text import safe
from standfast.evidence.keys import make
from standfast.evidence.zip_frame import entry
from standfast.odd_text import plain


def verdict_of(path: Path, **parts: Any) -> str:
    return verify_bundle(path, **parts).verdict


@pytest.mark.parametrize(
    "name",
    [
        "../../etc/passwd",
        "/etc/passwd",
        "run/../manifest.json",
        "run\\record.jsonl",
        "RUN/record.jsonl",
        "run/record.jsonl\x00.txt",
        "children/0/record.jsonl",
        "children/99999/record.jsonl",
        "run/",
    ],
)
def test_a_name_that_no_bundle_has_is_refused(world: World, bundle: Path, tmp_path: Path, name: str) -> None:
    file = tmp_path / "b.zip"
    packed(file, parts_of(bundle))
    with zipfile.ZipFile(file, "a") as more:
        info = zipfile.ZipInfo("placeholder.txt")
        info.filename = name
        more.writestr(info, b"x")
    report = world.verify(file)
    assert report.verdict == "broken"
    assert "file" in {one.what for one in report.of("broken")}


def test_two_parts_of_one_name_are_refused(world: World, bundle: Path, tmp_path: Path) -> None:
    file = packed(tmp_path / "b.zip", parts_of(bundle))
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(file, "a") as more:
        more.writestr(MANIFEST, parts_of(bundle)[MANIFEST])
    assert "two parts manifest.json" in words(world.verify(file))


def test_links_and_ciphers_are_refused(world: World, bundle: Path, tmp_path: Path) -> None:
    parts = parts_of(bundle)
    link = tmp_path / "link.zip"
    with zipfile.ZipFile(link, "w") as file:
        for name, content in parts.items():
            info = entry(name)
            if name == "README.txt":
                info.external_attr = (stat.S_IFLNK | 0o777) << 16
            file.writestr(info, content)
    assert "a link or a device" in words(world.verify(link))
    for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        with zipfile.ZipFile(tmp_path / "b.zip", "w", method) as file:
            for name, content in parts.items():
                file.writestr(name, content)
        assert "packed in a way that no bundle is" in words(world.verify(tmp_path / "b.zip"))


def test_a_bomb_is_not_unpacked(world: World, bundle: Path, tmp_path: Path) -> None:
    """Half a gigabyte of nothing, in half a megabyte: refused by what it may be, before memory or time is lost."""
    parts = parts_of(bundle)
    stranger = make()
    file = tmp_path / "bomb.zip"
    zeros = bytes(1 << 20)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as bomb:
        for name, content in parts.items():
            if name != MANIFEST:
                bomb.writestr(entry(name), content)
        with bomb.open(entry(MANIFEST), "w") as big:
            for _ in range(400):
                big.write(zeros)
    tracemalloc.start()
    began = time.monotonic()
    report = world.verify(file)
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "larger than" in words(report)
    assert used < 64 << 20
    assert time.monotonic() - began < 30
    wanted = signed({**parts, "run/record.jsonl": zeros * 100}, stranger)  # signed by themselves: one line of nothing
    assert verdict_of(packed(file, wanted)) == "broken"


def test_a_directory_of_millions_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "b.zip"
    for count, length in ((65535, 46 * 65535), (1, 500 << 20)):
        end = struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, count, count, length, 4, 0)
        file.write_bytes(b"PK\x03\x04" + end)
        assert verdict_of(file) == "broken"
    huge = tmp_path / "huge.zip"
    with huge.open("wb") as sparse:
        sparse.write(b"PK\x03\x04")
        sparse.truncate(600 << 20)
    assert "more than any bundle" in words(verify_bundle(huge))


def test_parts_that_lie_over_each_other_are_refused(bundle: Path, tmp_path: Path) -> None:
    raw = bytearray(bundle.read_bytes())
    first = raw.index(b"PK\x01\x02")
    second = raw.index(b"PK\x01\x02", first + 4)
    raw[second + 42 : second + 46] = raw[first + 42 : first + 46]
    (tmp_path / "b.zip").write_bytes(raw)
    assert verdict_of(tmp_path / "b.zip") == "broken"
    (tmp_path / "b.zip").write_bytes(b"#!/bin/sh\n" + bundle.read_bytes())
    assert verdict_of(tmp_path / "b.zip") == "broken"
    (tmp_path / "b.zip").write_bytes(bundle.read_bytes() + b"more")
    assert verdict_of(tmp_path / "b.zip") == "broken"


def directory(raw: bytes) -> int:
    """Where the directory of a zip begins."""
    return int(struct.unpack("<I", raw[-6:-2])[0])


def moved(raw: bytes, place: int, more: bytes) -> bytes:
    """More bytes at a place, and offsets that fit it again: what anybody can do who has no key."""
    start = directory(raw)
    listed, at = bytearray(raw[start:-22]), 0
    while at < len(listed):
        offset = struct.unpack_from("<I", listed, at + 42)[0]
        struct.pack_into("<I", listed, at + 42, offset + len(more) if offset >= place else offset)
        at += 46 + sum(struct.unpack_from("<HHH", listed, at + 28))
    end = bytearray(raw[-22:])
    struct.pack_into("<I", end, 16, start + len(more))
    return raw[:place] + more + raw[place:start] + bytes(listed) + bytes(end)


def hidden() -> bytes:
    """An entry of a zip that no directory lists; tools that read from the front show it."""
    name, content = b"run/not-stopped.txt", b"it was never stopped"
    sizes = (zlib.crc32(content), len(content), len(content), len(name), 0)
    return struct.pack("<4sHHHHHIIIHH", b"PK\x03\x04", 20, 0, 0, 0, 33, *sizes) + name + content


@pytest.mark.parametrize("more", [b"x", b"\0" * 30, hidden()], ids=["a byte", "zeros", "an entry"])
def test_nothing_lies_between_the_parts(world: World, bundle: Path, tmp_path: Path, more: bytes) -> None:
    """What no directory lists is no part of a bundle, wherever it lies: before, between, or after the parts."""
    raw = bundle.read_bytes()
    file = tmp_path / "b.zip"
    with zipfile.ZipFile(bundle) as listed:
        places = [one.header_offset for one in listed.infolist()]
    for place in (*places, directory(raw)):
        file.write_bytes(moved(raw, place, more))
        assert parts_of(file) == parts_of(bundle)  # it is a zip like any other
        assert world.verify(file).verdict == "broken", place


def test_nothing_lies_behind_the_end_of_a_part(world: World, bundle: Path, tmp_path: Path) -> None:
    """Within the bytes that the directory says are the part's: a reader of zips stops before them."""
    raw, file = bundle.read_bytes(), tmp_path / "b.zip"
    with zipfile.ZipFile(bundle) as listed:
        last = listed.infolist()[-1]
    changed = bytearray(moved(raw, directory(raw), b"it was never stopped"))
    for place in (last.header_offset + 18, changed.rindex(b"PK\x01\x02") + 20):
        struct.pack_into("<I", changed, place, last.compress_size + 20)
    file.write_bytes(changed)
    assert parts_of(file) == parts_of(bundle)
    assert "not this part alone" in words(world.verify(file))


def test_nothing_is_said_in_the_headers(world: World, bundle: Path, tmp_path: Path) -> None:
    """Times, modes, comments and extra fields: other tools show them, and no signature is over them."""
    parts, file = parts_of(bundle), tmp_path / "b.zip"
    for field, value in (
        ("comment", b"never stopped"),
        ("extra", b"\xfe\xca\x02\0hi"),
        ("date_time", (2020, 1, 1, 0, 0, 0)),
        ("external_attr", (stat.S_IFREG | 0o777) << 16),
        ("internal_attr", 1),
        ("create_system", 0),
    ):
        with zipfile.ZipFile(file, "w") as other:
            for name, content in parts.items():
                info = entry(name)
                if name == "README.txt":
                    setattr(info, field, value)
                other.writestr(info, content)
        assert world.verify(file).verdict == "broken", field
    assert world.verify(packed(file, parts)).verdict == "proved"


JUNK = [
    b"",
    b"{}",
    b"[]",
    b"null",
    b"NaN",
    b"\xff\xfe",
    b"[" * 100_000,
    b'{"a":' * 5000 + b"1" + b"}" * 5000,
    b'{"about":1e999,"parts":[]}',
]


@pytest.mark.parametrize("junk", JUNK, ids=range(len(JUNK)))
def test_json_that_is_none_is_refused(world: World, bundle: Path, tmp_path: Path, junk: bytes) -> None:
    """In every part, with a signature of the store's own key that fits it."""
    parts = parts_of(bundle)
    for name in parts:
        if name in (MANIFEST, "manifest.sig"):
            changed = {**parts, name: junk}
        else:
            changed = signed({**parts, name: junk}, world.key)
        assert world.verify(packed(tmp_path / "b.zip", changed)).verdict == "broken", name


def test_numbers_that_are_none_and_fields_told_twice_are_refused(world: World, bundle: Path, tmp_path: Path) -> None:
    parts = parts_of(bundle)
    first, _, rest = parts["run/record.jsonl"].partition(b"\n")
    at = json.loads(first)["at"]
    for old, new in (
        (f'"at":{at!r}', '"at":NaN'),
        (f'"at":{at!r}', '"at":Infinity'),
        (f'"at":{at!r}', f'"at":{at!r}0'),
        (f'"at":{at!r}', f'"at":1.0,"at":{at!r}'),
        ('"seq":', '"seq": '),
        ('"seq":1,', '"seq":100000000000000000000000000,'),
    ):
        line = first.replace(old.encode(), new.encode(), 1)
        assert line != first, old
        changed = signed({**parts, "run/record.jsonl": line + b"\n" + rest}, world.key)
        assert world.verify(packed(tmp_path / "b.zip", changed)).verdict == "broken", new


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_damage_ends_in_a_verdict(world: World, bundle: Path, tmp_path: Path, data: st.DataObject) -> None:
    """Whatever happens to the bytes of the file itself, nothing but a report comes of it, and no false proof."""
    raw = bytearray(bundle.read_bytes())
    for _ in range(data.draw(st.integers(1, 5))):
        place = data.draw(st.integers(0, len(raw) - 1))
        kind = data.draw(st.sampled_from(["set", "cut", "double"]))
        if kind == "set":
            raw[place] = data.draw(st.integers(0, 255))
        elif kind == "cut":
            del raw[place : place + data.draw(st.integers(1, 200))]
        else:
            raw[place:place] = raw[place : place + data.draw(st.integers(1, 200))]
        if not raw:
            break
    file = tmp_path / "b.zip"
    file.write_bytes(raw)
    report = world.verify(file)
    if report.verdict == "proved":  # at most another way to pack the same was hit: the bits after the end of a part
        assert parts_of(file) == parts_of(bundle)


def test_text_of_strangers_becomes_no_markup_and_hides_nothing(bundle: Path) -> None:
    page = parts_of(bundle)["report.html"].decode()
    assert MARKUP not in page
    assert "<script" not in page
    assert "<img" not in page
    assert "<h1>Not stopped" not in page
    assert "&lt;script&gt;alert(&#x27;x&#x27;)" in page
    assert "\u202e" not in page
    assert "U+202E" in page
    assert "&lt;b&gt;that&lt;/b&gt;" in page
    assert "default-src &#x27;none&#x27;" in page
    assert safe("\x00<\u2066") == "[U+0000 control]&lt;[U+2066 left-to-right isolate]"
    assert plain("ä\n\tö") == "ä\n\tö"


SMALLEST_LETTERS = """Math.min(...[...document.querySelectorAll("svg text")].map(
    (text) => parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a))"""


@pytest.mark.more
async def test_the_report_opens_without_scripts_network_or_errors(bundle: Path, tmp_path: Path) -> None:
    """In a real browser, with the policy that the page brings along."""
    playwright = pytest.importorskip("playwright.async_api")
    if not os.path.exists("/usr/bin/chromium"):  # noqa: PTH110
        (pytest.fail if os.environ.get("STANDFAST_REQUIRE_TOOLS") else pytest.skip)("chromium is not installed")
    page_file = tmp_path / "report.html"
    page_file.write_bytes(parts_of(bundle)["report.html"])
    async with playwright.async_playwright() as p:
        browser = await p.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = await browser.new_page()
        told: list[str] = []
        asked: list[str] = []
        page.on("console", lambda message: told.append(message.text))
        page.on("pageerror", lambda error: told.append(str(error)))
        page.on("dialog", lambda dialog: told.append(dialog.message))
        page.on("request", lambda request: asked.append(request.url))
        await page.goto(page_file.as_uri())
        assert told == []  # the style fits its hash, nothing was refused
        assert asked == [page_file.as_uri()]
        assert await page.locator("h1").count() == 1
        assert await page.locator("script, img, iframe, object, link").count() == 0
        assert await page.locator("svg circle").count() >= 3
        assert "stop 1 accepted" in await page.locator("pre").first.inner_text()
        for width in (1280, 1000, 360):
            await page.set_viewport_size({"width": width, "height": 800})
            assert await page.evaluate("document.documentElement.scrollWidth") <= width
            assert await page.evaluate(SMALLEST_LETTERS) >= 12
        await browser.close()


def test_what_is_no_zip_is_no_bundle(tmp_path: Path) -> None:
    file = tmp_path / "b"
    file.write_bytes(b"")
    assert not is_bundle(file)
    file.write_bytes(b"SQLite format 3\0")
    assert not is_bundle(file)
    empty = io.BytesIO()
    with zipfile.ZipFile(empty, "w"):
        pass
    file.write_bytes(empty.getvalue())
    assert is_bundle(file)
    assert "manifest.json is missing" in words(verify_bundle(file))


async def test_a_bundle_of_a_thousand_lies_is_one_lie(world: World, tmp_path: Path) -> None:
    """A child that is said to be in it, with the record of another run."""
    await take(world, "smiths", tmp_path / "b.zip", children=True)
    parts = parts_of(tmp_path / "b.zip")
    await take(world, "another-customer", tmp_path / "c.zip")
    theirs = parts_of(tmp_path / "c.zip")
    swapped = {
        **parts,
        **{f"children/1/{name.partition('/')[2]}": body for name, body in theirs.items() if "run/" in name},
    }
    assert world.verify(packed(tmp_path / "d.zip", signed(swapped, world.key))).verdict == "broken"
    manifest: dict[str, Any] = from_json(parts[MANIFEST])
    manifest["about"]["runs"][1]["folder"] = "run"
    again = {**parts, MANIFEST: to_json(manifest)}
    assert world.verify(packed(tmp_path / "d.zip", signed(again, world.key))).verdict == "broken"
