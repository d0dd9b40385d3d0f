"""Nothing moves under a pointer, nothing is meant for another run, nothing one wrote is lost (R6, R25, R27)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect
from tests.browser.looking import a_memo, control, word
from tests.browser.serving import Server

pytestmark = pytest.mark.more  # chromium

People = Callable[..., Any]
SIZES = {"desk": (1280, 860), "tablet": (820, 900), "phone": (390, 844)}


def place(page: Any, name: str = "cancel") -> Any:
    """Where a control is; a pointer aims at its middle."""
    return page.locator(f"standfast-bar #{name}").bounding_box()


def still_at(page: Any, before: Any, name: str = "cancel") -> bool:
    """Would a pointer aimed at the control as it was still hit it, and nothing else?"""
    at = f"{before['x'] + before['width'] / 2}, {before['y'] + before['height'] / 2}"
    hit = f"document.querySelector('standfast-bar').shadowRoot.elementFromPoint({at}).closest('button')?.id"
    return bool(page.evaluate(hit) == name) and abs(place(page, name)["x"] - before["x"]) < 1


def test_a_held_key_does_not_cancel(server: Server, person: People) -> None:
    """R6: x twice means two presses."""
    run, _ = a_memo(server)
    page = person().see(run)
    expect(word(page)).to_have_text("Running")
    for _ in range(5):
        page.keyboard.down("x")  # from the second on as a held key repeats
    page.keyboard.up("x")
    expect(control(page, "cancel")).not_to_have_attribute("data-armed", "")
    assert server.view(run)["status"] == "running"


def test_a_press_on_one_run_arms_no_other(server: Server, person: People) -> None:
    """R6"""
    first, _ = a_memo(server)
    second, _ = a_memo(server)
    page = person().see(first)
    expect(word(page)).to_have_text("Running")
    page.keyboard.press("x")
    page.evaluate("(to) => { location.hash = to }", f"#/runs/{second}")
    page.locator(".runhead", has_text=second).wait_for()
    expect(word(page)).to_have_text("Running")
    page.keyboard.press("x")
    expect(control(page, "cancel")).to_have_attribute("data-armed", "")  # armed by this press, and no more
    expect(control(page, "cancel")).not_to_have_attribute("data-armed", "")
    assert [server.view(run)["status"] for run in (first, second)] == ["running", "running"]


@pytest.mark.parametrize("size", SIZES)
def test_cancel_stays_where_it_was_when_force_appears(server: Server, person: People, size: str) -> None:
    """R34: a click aimed at Cancel must not kill a worker."""
    run = server.begin("payer", {"door": f"steady-{size}"})
    server.until_calls(run, "pay")
    width, height = SIZES[size]
    page = person(viewport={"width": width, "height": height}).see(run)
    expect(control(page, "cancel")).to_contain_text("cannot undo pay")  # it declares no undo: none is promised
    control(page, "pause").click()
    expect(word(page)).to_have_text("Pausing")
    before = place(page)
    assert before is not None
    expect(control(page, "force")).to_be_visible()
    assert still_at(page, before)
    server.open_door(f"steady-{size}")
    expect(word(page)).not_to_have_text("Pausing")


@pytest.mark.parametrize("size", SIZES)
def test_what_is_said_moves_no_control_and_is_a_whole_sentence(server: Server, person: People, size: str) -> None:
    """R19, R25"""
    run, _ = a_memo(server)
    width, height = SIZES[size]
    page = person(viewport={"width": width, "height": height}).see(run)
    expect(control(page, "cancel")).to_contain_text("cuts Explain the scores")
    before = place(page)
    assert before is not None
    box = page.get_by_label("Message to the run")
    box.fill("Mind the holidays")
    box.press("Enter")
    expect(page.locator(".notice")).to_contain_text("Message “Mind the holidays”: will be read after this step")
    assert still_at(page, before)
    whole = "(e) => [e.scrollWidth <= e.clientWidth, e.scrollHeight <= e.clientHeight]"
    assert page.locator(".notice").evaluate(whole) == [True, True]


def test_the_words_of_a_control_are_there_whole(server: Server, person: People) -> None:
    run, doors = a_memo(server, at="write_draft")
    page = person().see(run)
    words = "keeps 3 finished steps, undoes Write the draft in progress"
    expect(control(page, "cancel")).to_contain_text(words)
    expect(control(page, "cancel")).to_have_attribute("title", words)
    expect(page.get_by_role("button", name=f"Cancel {words}", exact=True)).to_be_visible()
    assert page.locator("standfast-bar #cancel-words").evaluate("(e) => e.scrollHeight <= e.clientHeight + 1")
    server.open_door(f"{doors}-write")


def test_what_one_has_begun_to_write_waits_at_its_run(server: Server, person: People) -> None:
    first, _ = a_memo(server)
    server.verb(first, "pause")
    server.until_is(first, "paused")
    second, _ = a_memo(server)
    one = person()
    page = one.see(first)
    page.get_by_label("Message to the run").fill("half a tho")
    control(page, "redirect").click()
    page.locator("standfast-bar #text").fill("Score by reven")
    page.get_by_role("tab", name="State").click()
    box = page.get_by_role("textbox", name="State")
    edited = json.dumps({**json.loads(box.input_value()), "month": "June"})
    box.fill(edited)
    page = one.see(second)
    expect(word(page)).to_have_text("Running")
    expect(page.get_by_label("Message to the run")).to_have_value("")
    expect(page.locator("standfast-bar #composer")).to_be_hidden()
    page = one.see(first)
    expect(page.get_by_label("Message to the run")).to_have_value("half a tho")
    expect(page.locator("standfast-bar #text")).to_have_value("Score by reven")
    page.get_by_role("tab", name="State").click()
    expect(page.get_by_role("textbox", name="State")).to_have_value(edited)


def test_the_live_region_says_nothing_of_a_page_one_has_left(server: Server, person: People) -> None:
    run, _ = a_memo(server)
    page = person().see(run)
    region = page.locator("#app > [aria-live]")
    control(page, "pause").click()
    expect(region).to_contain_text("Paus")
    page.locator(".brand").click()
    expect(page.locator("h1")).to_have_text("Runs")
    expect(region).to_have_text("")


def test_a_mangled_permalink_says_that_there_is_no_such_run(server: Server, person: People) -> None:
    page = person().at("#/runs/%E0%A4%A")
    expect(page.locator("main")).to_contain_text("This run is not here")


def test_a_redirect_of_a_run_without_a_plan_leaves_a_line_too(server: Server, person: People) -> None:
    """R5"""
    run = server.begin("drifter", {"words": 3, "door": "drift"})
    server.until_calls(run, "talk")
    page = person().see(run)
    control(page, "redirect").click()
    page.locator("standfast-bar #text").fill("Speak of the sea")
    page.locator("standfast-bar #text").press("Enter")
    expect(page.locator("standfast-bar #pending")).to_contain_text("read at step 0")
    server.open_door("drift-0")
    expect(page.locator("standfast-bar #diff")).to_contain_text("Redirected")
    expect(page.locator("standfast-bar #diff ins")).to_have_text("Speak of the sea")
    expect(page.locator("standfast-bar #said")).to_be_hidden()  # no stray word beside it
    server.open_door("drift-1")
    expect(word(page)).to_have_text("Done")


def test_a_new_run_has_dates_examples_and_its_problems_beside_the_fields(server: Server, person: People) -> None:
    page = person().at("#/new")
    page.get_by_label("Agent").select_option("tripper")
    field = page.locator(".field", has_text="Day")
    expect(field.locator("input")).to_have_attribute("type", "date")
    expect(field).to_contain_text("required")
    page.get_by_role("button", name="Start tripper").click()
    expect(field.get_by_role("alert")).to_contain_text("Day is needed")
    guest = page.locator(".field", has_text="guest")
    expect(guest).to_contain_text('{"name":"text","age":30}')
    guest.get_by_role("button", name="Fill in the example").click()
    field.locator("input").fill("2026-11-16")
    page.get_by_text("More fields").click()
    page.get_by_label("Seats").fill("-3")
    page.get_by_role("button", name="Start tripper").click()
    expect(page.locator(".field", has_text="Seats").get_by_role("alert")).to_contain_text("minimum of 0")
    page.get_by_label("Seats").fill("3")
    page.get_by_role("button", name="Start tripper").click()
    expect(word(page)).to_have_text("Done")


def test_on_a_low_screen_the_message_box_opens_on_demand(server: Server, person: People) -> None:
    run, _ = a_memo(server)
    page = person(viewport={"width": 640, "height": 360}).see(run)
    expect(word(page)).to_have_text("Running")
    expect(page.get_by_label("Message to the run")).to_be_hidden()
    page.get_by_role("button", name="Message…").click()
    box = page.get_by_label("Message to the run")
    expect(box).to_be_focused()
    box.fill("hello")
    box.press("Enter")
    expect(page.locator(".mail li")).to_contain_text("hello")
