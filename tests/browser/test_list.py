"""The list of runs, new runs, permalinks, the door (R26, R18)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect
from tests.browser.looking import a_memo, let_it_end, word
from tests.browser.serving import TOKEN, Server

pytestmark = pytest.mark.more  # chromium

People = Callable[..., Any]


def line(page: Any, run: str) -> Any:
    return page.locator(".runs li", has_text=run)


def test_runs_that_need_someone_are_on_top_and_in_the_title(server: Server, person: People) -> None:
    run, _ = a_memo(server)
    asks = server.begin("buyer")
    server.until(asks, lambda v: bool(v["needs"]))
    page = person().at()
    expect(page.get_by_role("region", name="Needs someone")).to_contain_text(asks)
    expect(page.get_by_role("region", name="Live")).to_contain_text(run)
    expect(page).to_have_title(re.compile(r"^\(\d+\) "))
    assert page.locator(".runs").first.get_attribute("aria-label") == "Needs someone"
    expect(line(page, run)).to_contain_text("3/4")
    expect(line(page, run)).to_contain_text("$0.01")


def test_the_list_is_filtered_by_status_agent_label_and_text(server: Server, person: People) -> None:
    run, _ = a_memo(server)
    other = server.begin("talker", {"words": 3, "door": "never"}, labels={"team": "ops"})
    page = person().at()
    expect(line(page, other)).to_be_visible()
    page.get_by_label("Agent").select_option("memo")
    expect(line(page, other)).to_be_hidden()
    expect(line(page, run)).to_be_visible()
    page.get_by_label("Agent").select_option("")
    page.get_by_label("Label").fill("team: ops")
    expect(line(page, other)).to_be_visible()
    expect(line(page, run)).to_be_hidden()
    page.get_by_label("Label").fill("")
    page.get_by_label("Search").fill(run)
    expect(line(page, other)).to_be_hidden()
    expect(line(page, run)).to_be_visible()
    page.get_by_label("Search").fill("")
    page.get_by_label("Status").select_option("ended")
    expect(line(page, run)).to_be_hidden()


def test_several_runs_are_paused_approved_and_cancelled_at_once(server: Server, person: People) -> None:
    runs = [a_memo(server)[0], a_memo(server)[0]]
    asks = server.begin("buyer")
    server.until(asks, lambda v: bool(v["needs"]))
    page = person().at()
    for run in runs:
        page.get_by_label(f"Select {run}").check()
    page.get_by_role("button", name="Pause 2").click()
    expect(page.locator(".notice")).to_contain_text("Pause: 2 of 2 accepted")
    for run in runs:
        server.until_is(run, "paused")
    page.get_by_label(f"Select {asks}").check()
    page.get_by_role("button", name="Approve 1").click()
    server.until_is(asks, "done")
    for run in runs:
        page.get_by_label(f"Select {run}").check()
    page.get_by_role("button", name="Cancel 2").click()
    for run in runs:
        server.until_is(run, "cancelled")


def test_a_new_run_is_started_from_a_form_made_of_the_schema(server: Server, person: People) -> None:
    page = person().at("#/new")
    page.get_by_label("Agent").select_option("memo")
    expect(page.locator(".preview")).to_contain_text("Write summary memo")
    page.get_by_role("button", name="Start memo").click()
    expect(page.get_by_role("alert")).to_contain_text("Month is needed")
    page.get_by_label("Month").fill("May")
    page.get_by_text("More fields").click()
    page.get_by_label("Doors").fill("from-the-form")
    page.get_by_label("Labels").fill("team: growth")
    page.get_by_role("button", name="Start memo").click()
    expect(page.locator("h1")).to_have_text("memo")
    run = page.url.rpartition("/")[2]
    view = server.view(run)
    assert (view["labels"], view["agent"]) == ({"team": "growth"}, "memo")
    let_it_end(server, "from-the-form")


def test_an_agent_that_names_a_field_for_it_is_started_with_a_text(server: Server, person: People) -> None:
    """R26, R36: the form asks for the text alone."""
    page = person().at("#/new")
    page.get_by_label("Agent").select_option("essayist")
    expect(page.get_by_label("words")).to_have_count(0)
    page.get_by_label("subject").fill("May")
    page.get_by_role("button", name="Start essayist").click()
    expect(word(page)).to_have_text("Done")
    expect(page.locator("#tabpanel")).to_contain_text("100 words on May")


def test_permalinks_lead_to_a_step_and_to_a_call(server: Server, person: People) -> None:
    run, doors = a_memo(server, at="write_draft")
    let_it_end(server, doors)
    server.until_is(run, "done")
    one = person()
    page = one.see(run, more="/steps/0")
    expect(page.locator(".calllist li")).to_have_count(1)
    page.locator(".calllist a").click()
    assert "/calls/customers-" in page.url
    page.reload()
    detail = page.get_by_role("article", name="Call customers")
    expect(detail).to_contain_text("Globex")
    expect(detail).to_contain_text("read")


def test_a_run_that_is_not_there_is_said_so(server: Server, person: People) -> None:
    page = person().at("#/runs/run-nowhere")
    expect(page.locator("main")).to_contain_text("This run is not here")


def test_a_token_in_the_address_is_exchanged_and_removed(server: Server, browser: Any) -> None:
    for address in (f"/#token={TOKEN}", f"/?token={TOKEN}"):
        context = browser.new_context()
        page = context.new_page()
        page.goto(server.url + address)
        expect(page.locator("h1")).to_have_text("Runs")
        assert TOKEN not in page.url
        context.close()


def test_a_session_that_has_ended_asks_for_the_token_again(server: Server, person: People) -> None:
    one = person()
    page = one.at()
    expect(page.locator(".connection")).to_have_text("live")
    one.context.clear_cookies()
    server.restart()
    page.get_by_label("Token").fill("wrong-token-wrong-token")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("not the token")
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("h1")).to_have_text("Runs")
    expect(page.locator(".connection")).to_have_text("live")


def test_closing_every_tab_changes_nothing_about_a_run(server: Server, person: People) -> None:
    """R18"""
    run, doors = a_memo(server)
    one = person()
    page = one.see(run)
    expect(word(page)).to_have_text("Running")
    before = server.view(run)["seq"]
    page.close()
    one.page = one.tab()
    assert (server.view(run)["status"], server.view(run)["seq"]) == ("running", before)
    let_it_end(server, doors)
    server.until_is(run, "done")
