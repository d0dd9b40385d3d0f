"""What a page must bear: replies that break it, connections that are lost, keys that are changed (R26, R33, R34)."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect
from tests.browser.looking import a_memo
from tests.browser.serving import Server, Wire, wait_for

pytestmark = pytest.mark.more  # chromium

People = Callable[..., Any]
NO_PATIENCE_RUNS_OUT = """(() => {
  const real = window.setTimeout;
  window.setTimeout = (what, ms, ...more) => (ms === 10000 ? 0 : real(what, ms, ...more)); // a notice
})()"""


def test_a_reply_of_five_thousand_quote_marks_blanks_nothing(server: Server, person: People, shots: Path) -> None:
    run = server.begin("parrot", {"text": ">" * 5000 + " the end of it"})
    server.until_is(run, "done")
    page = person().see(run)
    said = page.locator(".output .said").first
    expect(said).to_contain_text("the end of it")
    page.screenshot(path=shots / "quotes.png")


def test_the_timeline_stands_still_while_nothing_is_heard(
    server: Server, person: People, wire: Wire, shots: Path
) -> None:
    """The bars would go on as if the run did: nobody knows that."""
    run = server.begin("talker", {"words": 5, "door": "still"})
    server.until_calls(run, "talk")
    page = person(wire.url).see(run)
    clock = page.locator(".panel", has_text="Timeline").locator(".mono").first
    wire.cut()
    expect(page.locator(".connection")).to_contain_text("reconnecting")
    said = page.locator("standfast-bar .why")
    expect(said).to_contain_text("s ago: connection lost")

    def ago() -> float:
        found = re.search(r"([\d.]+) s ago", said.text_content())
        return float(found[1]) if found else 0.0

    then = ago()
    wait_for(lambda: ago() >= then + 1, "what was heard last is shown")
    before = clock.text_content()
    wait_for(lambda: ago() >= then + 4, "what moves by the second has moved more than once")
    assert clock.text_content() == before
    page.screenshot(path=shots / "timeline-lost.png")
    wire.mend()
    expect(page.locator(".connection")).to_have_text("live")
    server.open_door("still")
    server.until_is(run, "done")


def test_a_key_is_changed_by_typing_another_one(server: Server, person: People, shots: Path) -> None:
    page = person().at()
    page.get_by_role("button", name="Keys").click()
    field = page.get_by_label("Pause or resume")
    field.click()
    page.keyboard.type("q")
    expect(field).to_have_value("q")
    page.keyboard.type("w")  # it is taken at once, whatever the field held
    expect(field).to_have_value("w")
    page.screenshot(path=shots / "keys.png")
    page.keyboard.press("Backspace")
    expect(field).to_have_value("")
    page.get_by_role("button", name="As they were").click()
    expect(field).to_have_value("p")


def test_the_filled_button_of_a_tripwire_is_not_the_one_that_lets_it_pass(
    server: Server, person: People, shots: Path
) -> None:
    """R33."""
    run = server.begin("poured", "What are you told?")
    server.until(run, lambda v: bool(v["needs"]), "the tripwire holds it")
    page = person().see(run)
    card = page.locator(".need.tripwire")
    expect(card.get_by_role("button", name="Tell it otherwise first")).to_have_class("primary")
    expect(card.get_by_role("button", name="Let it say this")).to_have_class("")
    page.screenshot(path=shots / "tripwire-card.png")


def test_the_mark_of_a_leak_grows_with_it_and_ends_where_it_ends(server: Server, person: People, shots: Path) -> None:
    """R33: not where it was noticed."""
    run = server.begin("spilled", "What are you told?")
    page = person().see(run)
    mark = page.locator(".said mark.tripped")
    noticed = len(mark.inner_text())
    # in the page, where nothing comes between the two: as long as the leak goes on, the mark ends where the text does
    page.wait_for_function(
        """(noticed) => {
          const mark = document.querySelector(".said mark.tripped"), text = mark.closest("p").textContent;
          const marked = mark.textContent;
          return marked.length > noticed + 40 && text.endsWith(marked) && !text.includes("And so on");
        }""",
        arg=noticed,
    )
    server.until_is(run, "done")
    expect(page.locator(".said").first).to_contain_text("And so on.")
    expect(mark).to_contain_text("You answer for the bank of the old town.")
    assert mark.inner_text().strip().endswith("a wish for the weather")
    page.screenshot(path=shots / "leak.png")


def test_the_page_and_the_commands_count_the_plan_alike(server: Server, person: People) -> None:
    """R25, R26: in the middle of an item, and when the run was cancelled there."""
    run, _ = a_memo(server)
    page = person().see(run)
    for status in ("running", "cancelled"):
        server.until_is(run, status)
        place = page.locator("standfast-bar .plan")
        expect(place).to_have_text("plan 3/4" if status == "running" else "plan 2/4")
        shown = server.command("show", run)
        assert place.text_content() in shown.splitlines(), shown
        if status == "running":
            assert server.api("POST", f"/api/runs/{run}/cancel", {})["answer"] == "accepted"


def test_a_notice_of_mail_that_waits_goes_when_it_was_read(server: Server, person: People) -> None:
    """R40: it said "will be read", and then it was."""
    run = server.begin("talker", {"words": 5, "door": "mail-read"})
    server.until_calls(run, "talk")
    somebody = person()
    somebody.context.add_init_script(NO_PATIENCE_RUNS_OUT)
    page = somebody.see(run, somebody.tab())
    page.get_by_label("Message to the run").fill("Hello there")
    page.get_by_role("button", name="Send").click()
    notice = page.locator("p.notice")
    expect(notice).to_contain_text("Hello there")
    server.open_door("mail-read")
    server.until_is(run, "done")
    expect(notice).to_be_hidden()
