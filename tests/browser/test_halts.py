"""A halt is on every page it concerns: who, why, since when; and an operator lifts it there (R13, R27)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect
from tests.browser.looking import word
from tests.browser.serving import Server

pytestmark = pytest.mark.more  # chromium

People = Callable[..., Any]


def test_a_halt_is_shown_on_the_list_and_on_the_runs_it_holds_until_it_is_lifted(
    server: Server, person: People
) -> None:
    held = server.begin("talker", {"words": 3, "door": "never"}, labels={"team": "halted"})
    other = server.begin("talker", {"words": 3, "door": "never"}, labels={"team": "free"})
    server.until_calls(held, "talk")
    page = person().at()
    banner = page.get_by_role("region", name="Halts")
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()
    expect(banner).to_be_hidden()
    server.api("POST", "/api/halts", {"labels": {"team": "halted"}, "reason": "it leaks"})
    expect(banner).to_contain_text("Halted: team: halted")
    expect(banner).to_contain_text("it leaks")
    expect(banner).to_contain_text("by ")
    expect(banner.locator("time")).to_be_visible()
    expect(page.locator(".runs li", has_text=held)).to_contain_text("halted by an operator")

    on_run = person().see(held)
    expect(on_run.get_by_role("region", name="Halts")).to_contain_text("it leaks")
    expect(word(on_run)).to_have_text("Paused")
    free = person().see(other)
    expect(word(free)).to_be_visible()
    expect(free.get_by_role("region", name="Halts")).to_be_hidden()

    banner.get_by_role("button", name="Lift the halt of team: halted").click()
    expect(banner).to_be_hidden()
    server.until_is(held, "running")
    assert server.api("GET", "/api/halts")["halts"] == []
