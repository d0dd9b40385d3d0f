"""What becomes of a redirect, on the page: sent, read, applied, or not read; and where none is taken (R5, R40)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect
from tests.browser.looking import control, word
from tests.browser.serving import Server

pytestmark = pytest.mark.more  # chromium

People = Callable[..., Any]
LOOKS = [(scheme, width) for scheme in ("light", "dark") for width in (1280, 390)]
_names = itertools.count()


class Chores:
    """Three stages: the first says that it reads redirects and does not, the second does, the third takes none."""

    def __init__(self, server: Server, agent: str = "chores") -> None:
        self.server = server
        self.doors = f"chores{next(_names)}"
        self.run = server.begin(agent, {"doors": self.doors})
        self.worker = self.run
        if agent != "chores":
            server.until(self.run, lambda v: bool(v["in_flight"]), "its child is at work")
            runs = server.api("GET", "/api/runs")["runs"]
            self.worker = next(view["id"] for view in runs if view["parent"] == self.run)
        server.until_calls(self.worker, "work")

    def until_at(self, stage: str) -> None:
        def there(view: dict[str, Any]) -> bool:
            at = [item for item in view["plan"] if item["status"] == "running"]
            return bool(view["in_flight"]) and any(stage in (item["was"] or item["title"]) for item in at)

        self.server.until(self.worker, there, f"it works at {stage}")

    def finish(self, *stages: str) -> None:
        for stage in stages:
            self.server.open_door(f"{self.doors}-{stage}")

    def redirect(self, text: str, **more: Any) -> None:
        answer = self.server.api("POST", f"/api/runs/{self.worker}/redirect", {"text": text, **more})
        assert answer["answer"] == "accepted", answer

    def miss(self, text: str = "Mop the hall instead") -> None:
        """A redirect of the first stage, which it ends without reading."""
        self.redirect(text)
        self.finish("sweep")
        self.server.until(
            self.worker, lambda v: any(need["kind"] == "unread" for need in v["needs"]), "the redirect was not read"
        )
        self.until_at("Cook")


def pictures(person: People, shots: Path, name: str, run: str, what: str) -> None:
    """Light and dark, wide and narrow, to be looked at; nothing is wider than the screen."""
    for scheme, width in LOOKS:
        page = person(viewport={"width": width, "height": 860}, color_scheme=scheme).see(run)
        expect(page.locator(what).first).to_be_visible()
        page.screenshot(path=shots / f"{name}-{scheme}-{width}.png", full_page=True)
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_redirect_is_sent_then_read_then_applied(server: Server, person: People, shots: Path) -> None:
    chores = Chores(server)
    page = person().see(chores.run)
    letter = page.locator("ol.mail li")
    chores.redirect("Cook the stew", when="next")
    expect(page.locator("standfast-bar #pending")).to_contain_text("Redirect pending")
    expect(letter).to_have_class("pending")
    chores.finish("sweep")
    chores.until_at("Cook")
    expect(letter.locator(".became")).to_contain_text("read at step 1; applied when the step has ended")
    pictures(person, shots, "redirect-read", chores.run, "ol.mail li")
    chores.finish("cook")
    expect(letter.locator(".became")).to_have_text("read at step 1, applied")
    expect(letter).to_have_class("consumed")
    expect(page.locator("ol.plan li").nth(1)).to_contain_text("Cook the stew")
    chores.finish("lock")
    expect(word(page)).to_have_text("Done")
    expect(page.locator(".notread")).to_have_count(0)


def test_one_that_was_not_read_is_red_and_is_sent_again(server: Server, person: People, shots: Path) -> None:
    chores = Chores(server)
    page = person().see(chores.run)
    chores.miss()
    card = page.locator(".need.unread")
    expect(card).to_contain_text("Mop the hall instead")
    expect(card).to_contain_text("“Sweep the hall” (step 0) ended without reading it")
    note = page.locator("standfast-bar #unread")
    expect(note).to_contain_text("Redirect not read")
    expect(page.locator("ol.mail li")).to_have_class("unread")
    expect(page.locator("ol.plan li").first).to_contain_text("Sweep the hall")  # not ticked under what nobody did
    red = page.evaluate("getComputedStyle(document.querySelector('ol.mail li.unread .became')).color")
    plain = page.evaluate("getComputedStyle(document.body).color")
    assert red != plain
    expect(card).to_contain_text("“Lock the door” comes next, and takes no redirects")
    expect(card.get_by_role("button", name="Drop it")).to_have_class(
        ""
    )  # nothing is lost by the button that stands out
    pictures(person, shots, "redirect-not-read", chores.run, ".need.unread")
    card.get_by_role("button", name="Drop it").click()
    expect(card).to_be_hidden()
    expect(note).to_be_hidden()
    expect(page.locator("ol.mail li .became")).to_contain_text("returned: dropped by")
    chores.finish("cook", "lock")
    expect(word(page)).to_have_text("Done")


def test_sent_again_it_goes_to_the_next_step(server: Server, person: People) -> None:
    chores = Chores(server)
    page = person().see(chores.run)
    chores.redirect("Boil potatoes")
    assert server.api("POST", f"/api/runs/{chores.run}/pause", {})["answer"] == "accepted"
    server.until_is(chores.run, "paused")
    chores.finish("sweep")
    assert server.api("POST", f"/api/runs/{chores.run}/step_once", {})["answer"] == "accepted"
    card = page.locator(".need.unread")
    expect(card).to_be_visible()
    server.until_is(chores.run, "paused")
    card.get_by_role("button", name="Send it again").click()
    expect(card).to_be_hidden()
    expect(page.locator("ol.mail li")).to_have_class("pending")
    assert server.api("POST", f"/api/runs/{chores.run}/resume", {})["answer"] == "accepted"
    expect(page.locator("ol.mail li .became")).to_contain_text("read at step 1")
    chores.finish("cook", "lock")
    expect(word(page)).to_have_text("Done")
    expect(page.locator("ol.plan li").nth(1)).to_contain_text("Boil potatoes")


def test_an_ended_run_says_what_was_not_read_and_offers_a_fork(server: Server, person: People, shots: Path) -> None:
    chores = Chores(server)
    page = person().see(chores.run)
    chores.miss()
    chores.finish("cook", "lock")
    expect(word(page)).to_have_text("Done")
    line = page.locator(".notread")
    expect(line).to_contain_text("Mop the hall instead")
    expect(page.locator(".need.unread")).to_have_count(0)
    pictures(person, shots, "redirect-ended-unread", chores.run, ".notread")
    line.get_by_role("button", name="Fork it…").click()
    expect(page.get_by_role("button", name="Fork from step")).to_be_visible()
    page.goto(f"{server.url}/#/")
    expect(page.locator(f"a.open[href='#/runs/{chores.run}'] .doing.problem")).to_contain_text("not read")


def test_a_stage_that_takes_none_has_no_control_for_it_and_says_why(
    server: Server, person: People, shots: Path
) -> None:
    chores = Chores(server)
    page = person().see(chores.run)
    chores.finish("sweep", "cook")
    chores.until_at("Lock")
    redirect = control(page, "redirect")
    expect(redirect).to_have_attribute("aria-disabled", "true")
    expect(redirect).to_contain_text("“Lock the door” takes no redirects")
    redirect.click(force=True)
    expect(page.locator("standfast-bar #composer")).to_be_hidden()
    last = page.locator("ol.plan li").nth(2)
    expect(last).to_contain_text("takes no redirects")
    expect(last.get_by_role("button")).to_have_count(0)
    expect(page.locator("ol.plan li").nth(1).get_by_role("button", name="from here")).to_have_count(1)
    pictures(person, shots, "redirect-not-offered", chores.run, "ol.plan li")
    chores.finish("lock")
    expect(word(page)).to_have_text("Done")


def test_what_a_child_has_left_unread_is_shown_on_its_parent(server: Server, person: People, shots: Path) -> None:
    chores = Chores(server, "household")
    page = person().see(chores.run)
    chores.miss()
    card = page.locator(".need.child")
    expect(card).to_contain_text("A child run needs you")
    expect(card.locator("li.notread")).to_contain_text("A redirect was not read")
    pictures(person, shots, "redirect-child-unread", chores.run, ".need.child")
    card.get_by_role("link").click()
    page.locator(".need.unread").get_by_role("button", name="Drop it").click()
    expect(page.locator(".need.unread")).to_be_hidden()
    page.go_back()
    expect(card).to_be_hidden()
    chores.finish("cook", "lock")
    expect(word(page)).to_have_text("Done")
