"""The Share dialog, and the page as somebody with fewer rights sees it (R13, R25, R34)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect
from tests.browser.looking import a_memo, control, let_it_end, word
from tests.browser.serving import Server
from tests.browser.test_looks import AXE

pytestmark = pytest.mark.more  # chromium

People = Callable[..., Any]


def a_link(page: Any, preset: str, name: str) -> str:
    """A link as the dialog shows it, once."""
    page.get_by_role("button", name="Share", exact=True).click()
    dialog = page.get_by_role("dialog", name="Share this run")
    dialog.get_by_role("button", name=preset, exact=True).click()
    dialog.get_by_label("For").fill(name)
    dialog.get_by_role("button", name="Make a link").click()
    link = dialog.get_by_label("The link, shown this once").input_value()
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_be_hidden()
    return str(link)


def a_guest(browser: Any, link: str) -> Any:
    """Somebody with nothing but a link."""
    page = browser.new_context(viewport={"width": 1280, "height": 860}).new_page()
    page.asked = []
    page.on("request", lambda request: page.asked.append(request.url))
    page.goto(link)
    return page


def test_a_view_link_shows_the_run_and_says_what_one_may_not_do(
    server: Server, person: People, browser: Any, axe: str
) -> None:
    run, doors = a_memo(server)
    page = person().see(run)
    page.get_by_role("button", name="Share", exact=True).click()
    dialog = page.get_by_role("dialog", name="Share this run")
    expect(dialog.get_by_label("redirect, message, edit it")).not_to_be_checked()
    page.evaluate(axe)
    assert page.evaluate(AXE) == []
    dialog.get_by_role("button", name="Close").click()
    link = a_link(page, "View", "ann")
    assert "/login#token=sf_" in link

    guest = a_guest(browser, link)
    expect(word(guest)).to_have_text("Running")
    assert "sf_" not in guest.url
    assert not [url for url in guest.asked if "sf_" in url.partition("#")[0]]
    for name in ("pause", "redirect", "cancel"):
        expect(control(guest, name)).to_have_attribute("aria-disabled", "true")
        expect(control(guest, name)).to_contain_text("you have no right to")
    guest.keyboard.press("p")
    guest.keyboard.press("r")
    expect(guest.locator("standfast-bar #composer")).to_be_hidden()
    expect(guest.get_by_role("region", name="Message")).to_have_count(0)
    expect(guest.get_by_role("button", name="Share", exact=True)).to_have_count(0)
    guest.evaluate(axe)
    assert guest.evaluate(AXE) == []
    guest.goto(f"{server.url}/#/")
    expect(guest.locator("section.runs li")).to_have_count(1)
    expect(guest.get_by_role("link", name="New run")).to_have_count(0)
    assert server.view(run)["status"] == "running"
    guest.context.close()
    let_it_end(server, doors)


def test_a_link_to_view_and_stop_stops(server: Server, person: People, browser: Any) -> None:
    run, _ = a_memo(server)
    guest = a_guest(browser, a_link(person().see(run), "View + stop", "bob"))
    expect(word(guest)).to_have_text("Running")
    expect(control(guest, "redirect")).to_have_attribute("aria-disabled", "true")
    control(guest, "pause").click()
    expect(word(guest)).to_have_text("Paused")
    control(guest, "cancel").click()
    expect(word(guest)).to_have_text("Cancelled")
    assert re.match(r"bob \(tk-\w+\)", server.api("GET", f"/api/runs/{run}/receipt")["by"])
    guest.context.close()


def test_whoever_may_only_stop_gets_a_cancel_and_its_answer(
    server: Server, person: People, browser: Any, axe: str
) -> None:
    run, _ = a_memo(server)
    guest = a_guest(browser, a_link(person().see(run), "Stop only", "eve"))
    expect(guest.get_by_text("You may not look into this run, but you may cancel it.")).to_be_visible()
    expect(guest.locator("standfast-bar")).to_have_count(0)
    guest.evaluate(axe)
    assert guest.evaluate(AXE) == []
    guest.get_by_role("button", name="Cancel this run").click()
    expect(guest.get_by_text("Accepted: nothing new begins from now on.")).to_be_visible()
    expect(word(person().see(run))).to_have_text("Cancelled")
    guest.context.close()


def test_a_link_revoked_in_the_dialog_shuts_the_page_it_had_opened(
    server: Server, person: People, browser: Any
) -> None:
    run, doors = a_memo(server)
    page = person().see(run)
    guest = a_guest(browser, a_link(page, "View", "kim"))
    expect(word(guest)).to_have_text("Running")
    page.get_by_role("button", name="Share", exact=True).click()
    page.get_by_role("button", name="Revoke the link of kim").click()
    expect(page.get_by_role("button", name="Revoke the link of kim")).to_have_count(0)
    expect(guest.get_by_label("Token")).to_be_visible()
    expect(guest.get_by_role("alert")).to_have_text("this token was revoked")
    guest.context.close()
    let_it_end(server, doors)


def test_a_link_for_somebody_else_takes_nothing_from_an_operator(server: Server, person: People) -> None:
    run, doors = a_memo(server)
    one = person()
    page = one.see(run)
    link = a_link(page, "View", "ann")
    tab = one.tab()
    tab.goto(link)
    expect(word(tab)).to_have_text("Running")
    expect(control(tab, "cancel")).to_have_attribute("aria-disabled", "false")
    let_it_end(server, doors)
