"""A real page in a real browser: from the click to what its socket and its screen say, and what it keeps."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Page, sync_playwright

from bench.server.served import LIMIT, Server, until
from bench.server.verbs import SETTLES, Taken

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync")

# notes when a button is pressed, when the socket brings the answer, and when it brings the event that settles it
LISTEN = """
window.noted = {};
addEventListener("click", () => { window.noted = { click: performance.now() }; }, true);
const Real = window.WebSocket;
window.WebSocket = class extends Real {
  constructor(...given) {
    super(...given);
    this.addEventListener("message", ({ data }) => {
      const at = performance.now(), said = JSON.parse(data);
      if (said.op === "answer") window.noted.answer ??= at;
      if (said.op === "event") window.noted[said.event.type] ??= at;
    });
  }
};
"""

A_MOMENT = 1_500  # milliseconds; a second press right after the first is taken for a slip
# the verb, its button, and what the bar says before: then the button is the one it is taken for
PRESSED = (("pause", "pause", "Running"), ("resume", "pause", "Paused"), ("cancel", "cancel", "Running"))


@contextmanager
def open_page(server: Server) -> Iterator[Page]:
    """Somebody looks at the page."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        try:
            page = browser.new_context().new_page()
            page.set_default_timeout(LIMIT * 1e3)
            page.add_init_script(LISTEN)
            page.goto(f"{server.url}/?token={server.token}")
            yield page
        finally:
            browser.close()


def see(page: Page, server: Server, run: str) -> None:
    page.goto(f"{server.url}/#/runs/{run}")
    page.locator("standfast-bar .word", has_text="…").wait_for(state="detached")


def clicks(server: Server, trials: int) -> dict[str, Taken]:
    """Pause, resume and cancel, pressed."""
    taken = {verb: Taken() for verb in ("pause", "resume", "cancel")}
    with open_page(server) as page:
        for _ in range(trials):
            run = server.start("thinker")
            until(lambda: server.running(run), "the run is driven")  # noqa: B023 - called at once
            see(page, server, run)
            for verb, button, word in PRESSED:
                page.locator("standfast-bar .word", has_text=word).wait_for()
                page.wait_for_timeout(A_MOMENT)
                noted = _pressed(page, f"#{button}", SETTLES[verb])
                taken[verb].accepted.append((noted["answer"] - noted["click"]) / 1e3)
                taken[verb].settled.append((noted[SETTLES[verb]] - noted["click"]) / 1e3)
    return taken


def _pressed(page: Page, button: str, settles: str) -> dict[str, float]:
    page.locator(f"standfast-bar {button}").click()

    def noted() -> dict[str, float] | None:
        found: dict[str, float] = page.evaluate("window.noted")
        return found if "answer" in found and settles in found else None

    found: dict[str, float] = until(noted, f"{button} is settled")
    return found


def heap(page: Page, session: Any) -> int:
    """Bytes that the page keeps, after what it does not need is collected."""
    page.wait_for_timeout(300)
    session.send("HeapProfiler.collectGarbage")
    return int(session.send("Runtime.getHeapUsage")["usedSize"])
