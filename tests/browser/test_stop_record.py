"""R31: whoever may see it opens the stop record from the receipt: the times on one line, and where each text ends."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect
from tests.browser.looking import control, word
from tests.browser.serving import Server

pytestmark = pytest.mark.more  # chromium

People = Callable[..., Any]


def test_the_stop_record_is_drawn_with_every_client(server: Server, person: People) -> None:
    run = server.begin("narrator", "Tell me a story")
    first, second = person().see(run), person().see(run)
    for page in (first, second):
        expect(page.locator(".output")).to_contain_text("word5")
    control(first, "cancel").click()
    expect(word(second)).to_have_text("Cancelled")
    second.get_by_role("tab", name="Receipt").click()
    second.get_by_text("Stop record").click()
    stop = second.get_by_role("region", name="Stop 1")
    for words in ("cancel", "asked", "accepted", "last byte from", "last byte to operator (page", "settled: cancelled"):
        expect(stop).to_contain_text(words)
    expect(stop.locator(".tick")).to_have_count(6)
    expect(stop.locator("mark.ends")).to_have_count(2)
    if folder := os.environ.get("STANDFAST_SHOTS"):
        stop.screenshot(path=Path(folder) / "stop-record.png")


def test_other_peoples_words_turn_nothing_round_in_the_stop_record(server: Server, person: People) -> None:
    run = server.begin("narrator", "Tell me a story")
    page = person().see(run)
    expect(page.locator(".output")).to_contain_text("word5")
    server.verb(run, "cancel", reason="enough \u202egnp.exe")
    expect(word(page)).to_have_text("Cancelled")
    page.get_by_role("tab", name="Receipt").click()
    page.get_by_text("Stop record").click()
    stop = page.get_by_role("region", name="Stop 1")
    expect(stop.locator("bdi", has_text="gnp.exe")).to_have_text("enough [U+202E]gnp.exe")
    expect(page.locator("body")).not_to_contain_text("\u202e")
