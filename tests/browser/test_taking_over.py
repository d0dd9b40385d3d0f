"""A person takes the run over, performs a tool in it, and hands it back (R24)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect
from tests.browser.looking import a_memo, control, let_it_end, word
from tests.browser.serving import Server

pytestmark = pytest.mark.more  # chromium

People = Callable[..., Any]


def test_take_over_perform_a_tool_and_hand_back(server: Server, person: People) -> None:
    run, doors = a_memo(server)
    page = person().see(run)
    page.get_by_role("button", name="Take over").click()
    expect(word(page)).to_have_text("Paused")
    expect(page.locator("standfast-bar .why")).to_contain_text("taken over")
    expect(control(page, "pause")).to_contain_text("operator has it: hand it back")
    expect(page.locator(".takeover")).to_contain_text("operator has taken this run over")
    page.get_by_label("Perform a tool").select_option("join_usage")
    page.get_by_label("Names").fill("Hooli")
    page.get_by_role("button", name="Perform").click()
    expect(page.locator(".performed li")).to_have_text("join_usage 1")
    page.get_by_role("button", name="Perform").click()
    expect(page.locator(".performed li")).to_have_count(2)
    page.get_by_label("Note for the agent").fill("I have joined Hooli")
    page.get_by_role("button", name="Hand back").click()
    expect(page.locator(".takeover")).to_be_hidden()
    let_it_end(server, doors)
    expect(word(page)).to_have_text("Done")
    page.get_by_role("tab", name="Record").click()
    page.get_by_label("only what people did").check()
    for words in ("took the run over", "performed join_usage", "handed it back: I have joined Hooli"):
        expect(page.locator(".record")).to_contain_text(words)
