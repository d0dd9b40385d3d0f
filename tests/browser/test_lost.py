"""Lost connections, many tabs, two people: nothing lost, nothing doubled, and Cancel gets through (R18, R28, R34)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect
from tests.browser.looking import a_memo, control, let_it_end, word
from tests.browser.serving import Server, Wire, wait_for

pytestmark = pytest.mark.more  # chromium

People = Callable[..., Any]

WATCH = """async (run) => {
  const { connect } = await import(new URL("client.js", document.baseURI).href);
  window.watched = connect().watch(run);
  window.seqs = [];
  const take = () => {
    const { entries } = window.watched.history;
    while (window.seqs.length < entries.length) window.seqs.push(entries[window.seqs.length].seq);
  };
  window.watched.subscribe(take);
  take();
}"""

ASK = """async ([run, verb]) => {
  const { connect } = await import(new URL("client.js", document.baseURI).href);
  return await connect().verb(run, verb, {});
}"""


def seen(page: Any) -> tuple[list[int], str]:
    """The events the page has taken in, and all the text."""
    seqs = page.evaluate("window.seqs")
    text = page.evaluate("[...window.watched.history.calls.values()].map((c) => c.text).join('')")
    return seqs, text


def recorded(server: Server, run: str) -> list[int]:
    quiet = ("text_flushed", "call_progress")
    events = server.api("GET", f"/api/runs/{run}/record?limit=1000")["events"]
    return [e["seq"] for e in events if e["type"] not in quiet]


def test_a_network_drop_in_mid_stream_loses_and_doubles_nothing(server: Server, person: People, wire: Wire) -> None:
    run = server.begin("talker", {"words": 400, "door": "drop-talk"})
    server.until_calls(run, "talk")
    page = person(wire.url).see(run)
    page.evaluate(WATCH, run)
    for _ in range(3):
        wire.cut()
        expect(page.locator(".connection")).to_contain_text("reconnecting")
        wire.mend()
        expect(page.locator(".connection")).to_have_text("live")
    wire.cut()
    server.open_door("drop-talk")
    server.until_is(run, "done")
    expect(word(page)).to_have_text("Running")  # it cannot know
    wire.mend()
    expect(word(page)).to_have_text("Done")
    seqs, text = seen(page)
    assert seqs == recorded(server, run)
    assert text.split() == [f"word{n}" for n in range(400)]


def test_a_server_restart_is_survived_with_no_event_lost_or_doubled(server: Server, person: People) -> None:
    run, doors = a_memo(server)
    page = person().see(run)
    page.evaluate(WATCH, run)
    server.restart()
    expect(page.locator(".connection")).to_have_text("live")
    server.until_calls(run, "explain")
    expect(word(page)).to_have_text("Running")
    let_it_end(server, doors)
    expect(word(page)).to_have_text("Done")
    wait_for(lambda: seen(page)[0] == recorded(server, run), "the page has every event once")


def test_a_verb_asked_while_the_wire_is_cut_is_carried_out_once(server: Server, person: People, wire: Wire) -> None:
    run, _ = a_memo(server)
    page = person(wire.url).see(run)
    expect(word(page)).to_have_text("Running")
    wire.cut()
    control(page, "cancel").click()
    expect(control(page, "cancel")).to_have_attribute("data-pending", "")
    assert server.view(run)["status"] == "running"
    wire.mend()
    expect(word(page)).to_have_text("Cancelled")
    asked = [e for e in server.api("GET", f"/api/runs/{run}/record")["events"] if e["type"] == "cancel_asked"]
    assert len(asked) == 1


def test_without_a_connection_the_bar_says_so_and_that_a_press_will_be_sent(
    server: Server, person: People, wire: Wire
) -> None:
    """R27: what it shows is what was last heard; its clock stands still."""
    run, _ = a_memo(server)
    page = person(wire.url).see(run)
    expect(word(page)).to_have_text("Running")
    wire.cut()
    expect(page.locator("standfast-bar .why")).to_contain_text("when last heard")
    expect(page.locator("standfast-bar .why")).to_contain_text("connection lost")
    elapsed = page.locator("standfast-bar .elapsed")
    before = elapsed.inner_text()
    control(page, "pause").click()
    expect(page.locator("standfast-bar #said")).to_contain_text("it is sent as soon as there is one again")
    page.wait_for_timeout(2500)
    assert elapsed.inner_text() == before
    wire.mend()
    expect(word(page)).to_have_text("Paused")
    expect(page.locator("standfast-bar .why")).not_to_contain_text("connection")


@pytest.mark.parametrize("tabs", [6, 10])
def test_cancel_is_accepted_at_once_with_many_tabs_open(server: Server, person: People, tabs: int) -> None:
    """Over HTTP/1.1, six streams would block a seventh request: the page has one socket a tab, and no stream."""
    run = server.begin("talker", {"words": 100, "door": "never"})
    server.until_calls(run, "talk")
    one = person()
    pages = [one.page, *(one.tab() for _ in range(tabs - 1))]
    for page in pages:
        one.see(run, page)
    for page in pages:
        expect(word(page)).to_have_text("Running")
    began = time.monotonic()
    control(pages[-1], "cancel").click()
    expect(word(pages[-1])).to_have_text("Cancelled")
    took = time.monotonic() - began
    for page in pages:
        expect(word(page)).to_have_text("Cancelled")
    assert took < 20, took  # a blocked request would wait for ever


def test_two_people_at_once_see_each_other_and_the_loser_is_told_the_truth(server: Server, person: People) -> None:
    """R11"""
    run, doors = a_memo(server)
    ada, bob = person(), person()
    ada.see(run)
    bob.see(run)
    control(ada.page, "pause").click()
    expect(word(bob.page)).to_have_text("Paused")
    expect(control(bob.page, "pause")).to_contain_text("Resume")
    bob.page.wait_for_timeout(700)
    control(bob.page, "pause").click()
    expect(word(ada.page)).to_have_text("Running")
    ada.page.get_by_label("Message to the run").fill("from Ada")
    ada.page.get_by_label("Message to the run").press("Enter")
    expect(bob.page.locator(".mail")).to_contain_text("from Ada")
    answers = [one.page.evaluate(ASK, [run, "cancel"])["answer"] for one in (ada, bob)]
    assert answers[0] == "accepted"
    assert answers[1] in ("accepted", "too_late")
    for one in (ada, bob):
        expect(word(one.page)).to_have_text("Cancelled")
        one.page.get_by_role("tab", name="Record").click()
        expect(one.page.locator(".record .by").first).to_be_visible()
    late = bob.page.evaluate(ASK, [run, "pause"])
    assert late == {"answer": "too_late", "status": "cancelled"}
    let_it_end(server, doors)


def test_live_text_of_a_hundred_thousand_characters_stays_usable(server: Server, person: People) -> None:
    run = server.begin("talker", {"words": 12_000, "door": "never"})
    server.until_calls(run, "talk")
    page = person().see(run)
    expect(page.locator(".stream")).to_contain_text("word11999")
    control(page, "cancel").click()
    expect(word(page)).to_have_text("Cancelled")
