"""Every control, by mouse and by keyboard (R1, R3-R6, R25-R27, R30)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect
from tests.browser.looking import a_memo, control, let_it_end, word
from tests.browser.serving import Server, Wire

pytestmark = pytest.mark.more  # chromium

People = Callable[..., Any]


def test_pause_and_resume_by_mouse_share_one_slot(server: Server, person: People) -> None:
    run, doors = a_memo(server)
    page = person().see(run)
    expect(word(page)).to_have_text("Running")
    expect(control(page, "pause")).to_contain_text("closes Explain the scores")
    control(page, "pause").click()
    expect(word(page)).to_have_text("Paused")
    expect(control(page, "pause")).to_contain_text("Resume")
    expect(control(page, "cancel")).to_contain_text("Cancel")
    page.wait_for_timeout(700)  # a click right after the change would be one meant for Pause
    control(page, "pause").click()
    expect(word(page)).to_have_text("Running")
    let_it_end(server, doors)
    expect(word(page)).to_have_text("Done")
    expect(page.locator("standfast-bar .controls")).to_be_hidden()


def test_a_double_click_on_pause_does_not_resume(server: Server, person: People) -> None:
    run, _ = a_memo(server)
    page = person().see(run)
    control(page, "pause").dblclick()
    expect(word(page)).to_have_text("Paused")
    page.wait_for_timeout(300)
    assert server.view(run)["status"] == "paused"


def test_pause_and_resume_by_key(server: Server, person: People) -> None:
    run, _ = a_memo(server)
    page = person().see(run)
    page.keyboard.press("p")
    expect(word(page)).to_have_text("Paused")
    page.wait_for_timeout(700)
    page.keyboard.press("p")
    expect(word(page)).to_have_text("Running")


def test_redirect_now_shows_the_next_step_and_leaves_a_diff(server: Server, person: People) -> None:
    """R5"""
    run, doors = a_memo(server)
    page = person().see(run)
    control(page, "redirect").click()
    expect(page.locator("standfast-bar #composer label")).to_contain_text("Score accounts")
    box = page.locator("standfast-bar #text")
    expect(box).to_have_value("Score accounts")
    box.fill("Score by revenue")
    box.press("Enter")
    expect(page.locator(".plan li.running .title")).to_have_text("Score by revenue")
    expect(page.locator("standfast-bar #diff")).to_contain_text("Score accounts")
    expect(page.locator("standfast-bar #diff ins")).to_have_text("Score by revenue")
    expect(page.locator("standfast-bar #composer")).to_be_hidden()
    let_it_end(server, doors)
    expect(word(page)).to_have_text("Done")


def test_redirect_after_this_step_says_when_it_will_apply(server: Server, person: People) -> None:
    run, doors = a_memo(server)
    page = person().see(run)
    page.keyboard.press("r")
    page.locator("standfast-bar #text").fill("Write two lines only")
    page.locator("standfast-bar #next").click()
    expect(page.locator("standfast-bar #pending")).to_contain_text("from step 3")
    expect(page.locator(".mail li")).to_contain_text("Write two lines only")
    server.open_door(f"{doors}-score")
    expect(page.locator(".plan li.running .title")).to_have_text("Write two lines only")
    let_it_end(server, doors)


def test_redirect_from_here_undoes_what_came_after(server: Server, person: People) -> None:
    run, doors = a_memo(server, at="write_draft")
    page = person().see(run)
    item = page.locator(".plan li", has_text="Join usage data")
    item.hover()
    item.get_by_role("button").click()
    expect(page.locator("standfast-bar #composer label")).to_contain_text("From here")
    page.locator("standfast-bar #text").fill("Join by region")
    page.locator("standfast-bar #text").press("Enter")
    server.until(run, lambda v: v["status"] != "running", "the redirect is heard before the write goes on")
    server.open_door(f"{doors}-write")
    expect(page.locator(".plan li .title", has_text="Join by region")).to_be_visible()
    expect(word(page)).to_have_text("Done")
    assert server.view(run)["epoch"] == 1


def test_cancel_by_mouse_needs_no_confirmation_and_gives_a_receipt(server: Server, person: People) -> None:
    """R6, R8, R9"""
    run, _ = a_memo(server, at="write_draft")
    draft = server.folder / f"{run}.draft"
    assert draft.exists()
    page = person().see(run)
    expect(control(page, "cancel")).to_contain_text("keeps 3 finished steps, undoes Write the draft in progress")
    control(page, "cancel").click()
    expect(word(page)).to_have_text("Cancelled")
    receipt = page.get_by_role("tabpanel")
    expect(receipt).to_contain_text("3 finished steps are kept")
    expect(receipt.locator(".outcome.undone")).to_be_visible()
    assert not draft.exists()


def test_cancel_by_key_wants_two_presses(server: Server, person: People) -> None:
    run, _ = a_memo(server)
    page = person().see(run)
    page.keyboard.press("x")
    expect(control(page, "cancel")).to_have_attribute("data-armed", "")
    expect(control(page, "cancel")).not_to_have_attribute("data-armed", "")  # one press is no cancel
    assert server.view(run)["status"] == "running"
    page.keyboard.press("x")
    page.keyboard.press("x")
    expect(word(page)).to_have_text("Cancelled")


def test_keys_are_inactive_in_fields_and_can_be_changed(server: Server, person: People) -> None:
    run, _ = a_memo(server)
    page = person().see(run)
    page.get_by_label("Message to the run").fill("pxxr")
    page.get_by_label("Message to the run").press_sequentially("xx p")
    page.locator("h1").click()
    page.keyboard.press("?")
    page.get_by_role("dialog").get_by_label("Pause or resume").fill("k")
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    page.reload()
    expect(word(page)).to_have_text("Running")
    page.keyboard.press("p")
    page.keyboard.press("k")
    expect(word(page)).to_have_text("Paused")
    events = server.api("GET", f"/api/runs/{run}/record")["events"]
    assert [e["type"] for e in events if e["type"].endswith("_asked")] == ["pause_asked"]


def test_buttons_react_at_once_and_the_state_word_only_to_the_server(
    server: Server, person: People, wire: Wire
) -> None:
    """R27"""
    run, _ = a_memo(server)
    page = person(wire.url).see(run)
    expect(word(page)).to_have_text("Running")
    wire.hold()
    control(page, "pause").click()
    expect(control(page, "pause")).to_have_attribute("data-pending", "")
    expect(control(page, "cancel")).to_be_enabled()
    page.wait_for_timeout(300)
    expect(word(page)).to_have_text("Running")
    wire.release()
    expect(word(page)).to_have_text("Paused")
    expect(control(page, "pause")).not_to_have_attribute("data-pending", "")


def test_a_stop_that_hangs_says_what_it_waits_for_and_offers_force(server: Server, person: People) -> None:
    """R15, R34: the write whose worker was killed is in doubt, and a person settles it."""
    run = server.begin("payer", {"door": "force-pay"})
    server.until_calls(run, "pay")
    page = person().see(run)
    control(page, "pause").click()
    expect(word(page)).to_have_text("Pausing")
    expect(page.locator("standfast-bar .why")).to_contain_text("waits for pay")
    expect(control(page, "force")).to_be_hidden()
    expect(control(page, "cancel")).to_be_enabled()
    expect(control(page, "force")).to_be_visible()
    expect(control(page, "force")).to_contain_text("kills worker")
    control(page, "force").click()
    expect(word(page)).to_have_text("Paused")
    page.wait_for_timeout(700)
    control(page, "pause").click()
    doubt = page.locator(".need.doubt")
    expect(doubt).to_contain_text("pay")
    doubt.get_by_label("What it gave").fill('"paid by hand"')
    doubt.get_by_role("button", name="It happened").click()
    expect(doubt).to_be_hidden()
    expect(word(page)).to_have_text("Done")
    expect(page.get_by_role("tabpanel")).to_contain_text("paid by hand")


def test_suspicious_output_stops_and_says_where(server: Server, person: People) -> None:
    """R30"""
    run = server.begin("talker", {"words": 50, "door": "never"})
    server.until_calls(run, "talk")
    page = person().see(run)
    expect(page.locator(".stream")).to_contain_text("word49")
    page.get_by_role("button", name="Suspicious output").click()
    expect(word(page)).to_have_text("Cancelled")
    events = server.api("GET", f"/api/runs/{run}/record")["events"]
    asked = next(e for e in events if e["type"] == "cancel_asked")
    assert (asked["reason"], asked["trigger"], asked["suspicious"]) == ("suspicious output", "button", True)
    mark = next(e for e in events if e["type"] == "output_suspected")
    [said] = [
        one for one in server.api("GET", f"/api/runs/{run}/transcript")["transcript"] if one["call"] == mark["call"]
    ]
    assert said["text"][: mark["offset"]].rstrip().endswith("word49")
    assert said["marks"] == [mark["offset"]]
    page.get_by_role("tab", name="Output").click()
    expect(page.locator(".suspected")).to_contain_text("stopped here as suspicious")
    page.get_by_role("tab", name="Record").click()
    expect(page.locator(".record")).to_contain_text("suspicious output")
    expect(page.locator(".record .by").first).to_be_visible()


def test_a_message_shows_its_disposition_at_once(server: Server, person: People) -> None:
    """R19"""
    run, doors = a_memo(server)
    page = person().see(run)
    box = page.get_by_label("Message to the run")
    box.fill("Mind the holidays")
    box.press("Enter")
    expect(page.locator(".messagebox .became")).to_contain_text("after this step")
    expect(page.locator(".mail li")).to_contain_text("Mind the holidays")
    expect(box).to_have_value("")
    let_it_end(server, doors)
    expect(word(page)).to_have_text("Done")
    expect(page.locator(".mail li .became")).to_contain_text(re.compile("read at step|returned"))


def test_a_held_run_is_inspected_edited_and_stepped(server: Server, person: People) -> None:
    """R29"""
    run = server.begin("breaker")
    server.until_is(run, "paused")
    page = person().see(run)
    expect(page.locator(".need.error")).to_contain_text("the ledger does not add up")
    page.get_by_role("tab", name="State").click()
    box = page.get_by_role("textbox", name="State")
    state = json.loads(box.input_value())
    box.fill(json.dumps({**state, "fixed": True}))
    expect(page.get_by_role("tabpanel")).to_contain_text('"fixed": true')
    page.get_by_role("button", name="Save edit").click()
    expect(page.locator("standfast-bar #diff")).to_contain_text("fixed")
    page.get_by_role("button", name="Take one step").click()
    expect(word(page)).to_have_text("Done")


def test_a_cancelled_run_is_forked_edited_and_saved(server: Server, person: People, tmp_path: Path) -> None:
    """R10"""
    run, doors = a_memo(server, at="write_draft")
    server.verb(run, "cancel", reason="enough")
    server.until_is(run, "cancelled")
    let_it_end(server, doors)
    one = person()
    page = one.see(run)
    with page.expect_download() as saving:
        page.get_by_role("button", name="Save").click()
    saving.value.save_as(tmp_path / "run.json")
    assert json.loads((tmp_path / "run.json").read_text())["receipt"]["reason"] == "enough"
    page.get_by_label("step", exact=True).fill("1")
    page.get_by_role("button", name="Edit and rerun").click()
    box = page.get_by_label("State before step 1")
    box.fill(json.dumps({**json.loads(box.input_value()), "month": "June"}))
    page.get_by_role("button", name="Rerun from step 1").click()
    page.wait_for_url(lambda url: run not in url)
    fork = page.url.rpartition("/")[2]
    server.until(fork, lambda v: v["status"] in ("done", "paused"))
    assert server.api("GET", f"/api/runs/{fork}/state")["month"] == "June"
