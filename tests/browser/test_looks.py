"""Every state in light, in dark and on a phone: accessible, and a picture of each to look at (R25-R27)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect
from tests.browser.looking import a_memo, control, word
from tests.browser.serving import Server

pytestmark = pytest.mark.more  # chromium

People = Callable[..., Any]

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True, "device_scale_factor": 2}
DESK = {"viewport": {"width": 1280, "height": 860}}

AXE = """async () => {
  const rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
  const found = await axe.run(document, { runOnly: rules });
  const told = (node) => node.target.join(" ") + " " + node.failureSummary;
  return found.violations.map((v) => `${v.id}: ${v.nodes.map(told).join(" | ")}`);
}"""

SMALL = """() => {
  const all = (root) => [...root.querySelectorAll("*")].flatMap((e) => [e, ...(e.shadowRoot ? all(e.shadowRoot) : [])]);
  const small = (e) => {
    const { width, height } = e.getBoundingClientRect();
    return width > 0 && (width < 24 || height < 24) && !(e.type === "checkbox" && width >= 18);
  };
  return all(document)
    .filter((e) => e.matches("button, select, input, [role=tab]") && e.checkVisibility({ opacityProperty: true }))
    .filter(small)
    .map((e) => e.outerHTML.slice(0, 120));
}"""

LISTEN = """() => {
  window.spoken = [];
  const region = document.querySelector("#app > [aria-live]");
  const changes = { childList: true, characterData: true, subtree: true };
  new MutationObserver(() => window.spoken.push(region.textContent)).observe(region, changes);
}"""


@pytest.fixture(scope="module")
def states(server: Server) -> dict[str, str]:
    """A run in each state; those in transit stay there while the module runs."""
    found: dict[str, str] = {}
    server.until_calls(server.begin("single", {"door": "never-0"}), "pay")
    found["queued"] = server.begin("single", {"door": "never-0"})
    found["running"] = a_memo(server)[0]
    server.verb(found["running"], "message", text="Mind the holidays")
    server.verb(found["running"], "redirect", text="Write two lines only", when="next")
    found["paused"], _ = a_memo(server)
    server.verb(found["paused"], "pause", reason="look first")
    server.until_is(found["paused"], "paused")
    found["pausing"] = server.begin("payer", {"door": "never-1"})
    server.until_calls(found["pausing"], "pay")
    server.verb(found["pausing"], "pause")
    found["cancelling"] = server.begin("payer", {"door": "never-2"})
    server.until_calls(found["cancelling"], "pay")
    server.verb(found["cancelling"], "cancel", soft=True)
    found["cancelled"], _ = a_memo(server, at="write_draft")
    server.verb(found["cancelled"], "cancel", reason="enough")
    server.until_is(found["cancelled"], "cancelled")
    for agent, status in (
        ("loser", "failed"),
        ("buyer", "paused"),
        ("asker", "paused"),
        ("spender", "paused"),
        ("breaker", "paused"),
    ):
        found[agent] = server.begin(agent)
        server.until_is(found[agent], status)
    found["failed"] = found.pop("loser")
    found["done"], doors = a_memo(server)
    for door in ("score", "write"):
        server.open_door(f"{doors}-{door}")
    server.until_is(found["done"], "done")
    found["thinking"] = server.begin("thinker", "Dig for gold")
    server.until_calls(found["thinking"], "dig")
    server.verb(found["thinking"], "message", text="How far are you?", when="now")
    server.until(found["thinking"], lambda v: len(v["frames"]) > 1, "a thought is on hold")
    return found


WORDS = {
    "queued": "Queued", "running": "Running", "paused": "Paused", "pausing": "Pausing", "cancelling": "Cancelling",
    "cancelled": "Cancelled", "failed": "Failed", "done": "Done", "thinking": "Running",
    "buyer": "Paused", "asker": "Paused", "spender": "Paused", "breaker": "Paused",
}  # fmt: skip


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_state_is_accessible_and_looks_its_own(
    server: Server, person: People, states: dict[str, str], axe: str, shots: Path, scheme: str
) -> None:
    one = person(color_scheme=scheme, reduced_motion="reduce", **DESK)
    looks: dict[str, tuple[str, str]] = {}
    violations: dict[str, Any] = {}
    for name, run in states.items():
        page = one.see(run)
        expect(word(page)).to_have_text(WORDS[name])
        if name in ("pausing", "cancelling"):
            expect(control(page, "force")).to_be_visible()
        page.evaluate(axe)
        violations[name] = page.evaluate(AXE)
        page.screenshot(path=shots / f"{name}-{scheme}.png")
        bar = page.locator("standfast-bar .bar")
        shape = bar.locator(".mark path").get_attribute("d")
        colour = bar.locator(".mark").evaluate("(e) => getComputedStyle(e).color")
        looks[WORDS[name]] = (shape, colour)
        if name in ("paused", "cancelled", "running"):
            for tab in page.get_by_role("tab").all():
                tab.click()
                page.wait_for_timeout(100)
                violations[f"{name} {tab.inner_text()}"] = page.evaluate(AXE)
                page.screenshot(path=shots / f"{name}-{tab.inner_text().lower()}-{scheme}.png")
    for name, path in (("list", "#/"), ("new", "#/new")):
        page = one.at(path)
        expect(page.locator("h1")).to_be_visible()
        page.wait_for_timeout(400)
        page.evaluate(axe)
        violations[name] = page.evaluate(AXE)
        page.screenshot(path=shots / f"{name}-{scheme}.png")
    page.keyboard.press("?")
    violations["keys"] = page.evaluate(AXE)
    page.screenshot(path=shots / f"keys-{scheme}.png")
    assert {name: found for name, found in violations.items() if found} == {}
    assert len(looks) == 8
    assert len({shape for shape, _ in looks.values()}) == len(looks)  # no two states look alike, with or
    assert len({colour for _, colour in looks.values()}) == len(looks)  # without colour


def test_a_phone_in_one_hand(server: Server, person: People, states: dict[str, str], axe: str, shots: Path) -> None:
    one = person(reduced_motion="reduce", **PHONE)
    for name, run in states.items():
        page = one.see(run)
        expect(word(page)).to_have_text(WORDS[name])
        page.screenshot(path=shots / f"{name}-390.png")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, f"{name} is wider than the phone"
        if name in ("running", "paused", "buyer"):
            expect(page.get_by_label("Message to the run")).to_be_in_viewport()
            for slot in ("pause", "redirect", "cancel"):
                box = control(page, slot).bounding_box()
                assert box is not None
                assert box["y"] > 844 / 2, f"{slot} is out of the thumb's reach"
                assert box["y"] + box["height"] <= 844
                assert min(box["width"], box["height"]) >= 44
            page.evaluate(axe)
            assert page.evaluate(AXE) == [], name
            assert page.evaluate(SMALL) == [], name
    page = one.see(states["running"])
    control(page, "redirect").tap()
    expect(page.locator("standfast-bar #text")).to_be_in_viewport()
    page.screenshot(path=shots / "redirecting-390.png")
    for name, path in (("list", "#/"), ("new", "#/new")):
        page = one.at(path)
        expect(page.locator("h1")).to_be_visible()
        page.wait_for_timeout(400)
        page.screenshot(path=shots / f"{name}-390.png")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_thoughts_on_hold_show_age_and_expiry_and_are_abandoned_with_a_reason(
    server: Server, person: People, states: dict[str, str]
) -> None:
    """R21, R22"""
    page = person().see(states["thinking"])
    held = page.locator(".frames .held")
    expect(held).to_contain_text("Dig for gold")
    expect(held).to_contain_text("expires in")
    held.get_by_role("button", name="Abandon").click()
    page.get_by_label("Why abandon it").fill("not worth it")
    held.get_by_role("button", name="Abandon", exact=True).click()
    expect(held).to_contain_text("ordered: abandon")


def test_one_status_region_announces_steps_and_never_tokens(server: Server, person: People) -> None:
    run, doors = a_memo(server)
    page = person().see(run)
    expect(page.locator(".said")).to_be_visible()
    regions = page.locator("#app > [aria-live]")
    expect(regions).to_have_count(1)
    page.evaluate(LISTEN)
    for door in ("score", "write"):
        server.open_door(f"{doors}-{door}")
    expect(word(page)).to_have_text("Done")
    page.wait_for_function("/Step [23] finished/.test(window.spoken.join(' '))")
    spoken = " ".join(page.evaluate("window.spoken"))
    assert "Acme" not in spoken
    assert page.locator("standfast-bar [aria-live]").inner_text() == ""  # one region, not two
    assert page.evaluate("document.querySelector('.output').closest('[aria-live]')") is None


def test_the_theme_is_chosen_and_kept(server: Server, person: People) -> None:
    page = person(color_scheme="light").at()
    expect(page.locator("h1")).to_have_text("Runs")
    back = "getComputedStyle(document.documentElement).backgroundColor"
    light = page.evaluate(back)
    page.get_by_role("button", name="Theme").click()
    dark = page.evaluate(back)
    assert dark != light
    page.reload()
    expect(page.locator("h1")).to_have_text("Runs")
    assert page.evaluate(back) == dark
