"""What only a person can settle: dialogs made from `needs` and its choices (R14-R17)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect
from tests.browser.looking import control, word
from tests.browser.serving import Server

pytestmark = pytest.mark.more  # chromium

People = Callable[..., Any]


def held(server: Server, agent: str, state: dict[str, Any] | None = None) -> str:
    run = server.begin(agent, state or {})
    server.until(run, lambda v: bool(v["needs"]), f"{agent} needs someone")
    return run


def test_an_approval_is_given(server: Server, person: People) -> None:
    page = person().see(held(server, "buyer"))
    expect(control(page, "pause")).to_contain_text("first answer what it asks")
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(word(page)).to_have_text("Done")
    expect(page.get_by_role("tabpanel")).to_contain_text("bought 2 tea")


def test_an_approval_is_given_with_other_arguments(server: Server, person: People) -> None:
    page = person().see(held(server, "buyer"))
    page.get_by_role("button", name="Change…").click()
    page.get_by_label("Arguments").fill("{oops")
    page.get_by_role("button", name="Approve with these").click()
    expect(page.locator(".need .problem")).to_contain_text("Not sent")
    page.get_by_label("Arguments").fill(json.dumps({"item": "coffee", "amount": 1}))
    page.get_by_role("button", name="Approve with these").click()
    expect(word(page)).to_have_text("Done")
    expect(page.get_by_role("tabpanel")).to_contain_text("bought 1 coffee")


def test_an_approval_is_denied_with_a_reason(server: Server, person: People) -> None:
    run = held(server, "buyer")
    page = person().see(run)
    page.get_by_label("Reason to deny").fill("too dear")
    page.get_by_role("button", name="Deny").click()
    expect(page.locator(".need.approval")).to_be_hidden()
    answered = next(e for e in server.api("GET", f"/api/runs/{run}/record")["events"] if e["type"] == "answered")
    assert (answered["answer"], answered["reason"]) == ("denied", "too dear")


def test_questions_are_answered_by_option_and_by_a_typed_value(server: Server, person: People) -> None:
    page = person().see(held(server, "asker"))
    page.get_by_role("button", name="gift").click()
    expect(page.locator(".need.question")).to_contain_text("How many?")
    page.get_by_label("Your answer").fill("7")
    page.get_by_label("Your answer").press("Enter")
    expect(word(page)).to_have_text("Done")
    expect(page.get_by_role("tabpanel")).to_contain_text("7 with gift")


def test_a_cap_is_raised(server: Server, person: People) -> None:
    """R17"""
    page = person().see(held(server, "spender"))
    need = page.locator(".need.budget")
    need.get_by_label("steps").fill("50")
    need.get_by_role("button", name="Raise the cap").click()
    expect(word(page)).to_have_text("Done")


def test_an_error_shows_its_traceback_and_is_tried_again_or_cancelled(server: Server, person: People) -> None:
    page = person().see(held(server, "breaker"))
    page.locator("summary", has_text="Traceback").click()
    expect(page.locator(".need.error pre")).to_contain_text("ValueError")
    page.locator(".need.error").get_by_role("button", name="Try again").click()
    expect(page.locator(".need.error")).to_be_visible()
    page.locator(".need.error").get_by_role("button", name="Cancel the run").click()
    expect(word(page)).to_have_text("Cancelled")


def test_a_kind_of_need_that_the_page_does_not_know_still_gets_an_answer(server: Server, person: People) -> None:
    run = held(server, "asker")
    one = person()
    sent: list[Any] = []

    def between(socket: Any) -> None:
        upstream = socket.connect_to_server()

        def from_page(text: str) -> None:
            message = json.loads(text)
            if message["op"] == "verb":
                sent.append(message)
            upstream.send(text)

        def from_server(text: str) -> None:
            message = json.loads(text)
            if message["op"] == "view":
                need = message["view"]["needs"][0]
                offered = {"verb": "resume", "args": {"note": "as you say"}, "label": "consult the stars"}
                message["view"]["needs"] = [
                    {**need, "kind": "omen", "text": "A raven came.", "choices": [offered]},
                    {**need, "id": "other", "kind": "riddle", "text": "What walks on three legs?", "choices": []},
                ]
            socket.send(json.dumps(message))

        socket.on_message(from_page)
        upstream.on_message(from_server)

    one.page.route_web_socket("**/ws", between)
    one.page.reload()
    page = one.see(run)
    expect(page.locator(".need.omen")).to_contain_text("A raven came.")
    page.get_by_role("button", name="Consult the stars").click()
    page.locator(".need.riddle").get_by_label("Your answer").fill("a man")
    page.locator(".need.riddle").get_by_role("button", name="Answer").click()
    page.wait_for_timeout(100)
    assert [(m["verb"], m["args"]) for m in sent] == [
        ("resume", {"note": "as you say"}),
        ("answer", {"call_id": sent[1]["args"]["call_id"], "value": "a man"}),
    ]
