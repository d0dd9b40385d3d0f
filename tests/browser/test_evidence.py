"""The Evidence dialog: what a bundle holds, how it is verified, and the bundle itself (R32)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect
from tests.browser.looking import a_memo, control, let_it_end, word
from tests.browser.serving import Server
from tests.browser.test_looks import AXE
from tests.browser.test_sharing import a_guest, a_link

from standfast.evidence.bundle_check import verify_bundle
from standfast.evidence.keys import load_public

pytestmark = pytest.mark.more  # chromium

People = Callable[..., Any]


def test_whoever_has_the_right_takes_a_bundle_that_proves_itself(
    server: Server, person: People, axe: str, tmp_path: Path
) -> None:
    run, doors = a_memo(server)
    page = person().see(run)
    control(page, "cancel").click()
    let_it_end(server, doors)
    expect(word(page)).to_have_text("Cancelled")
    page.get_by_role("button", name="Evidence", exact=True).click()
    dialog = page.get_by_role("dialog", name="Take evidence of this run")
    expect(dialog).to_contain_text("every row of the run's record")
    expect(dialog.get_by_label("To verify it")).to_have_value(
        f"standfast verify evidence-{run}.zip --key PUBLIC.pub --anchor ANCHOR"
    )
    page.evaluate(axe)
    assert page.evaluate(AXE) == []
    with page.expect_download() as coming:
        dialog.get_by_role("button", name="Download").click()
    file = tmp_path / "b.zip"
    coming.value.save_as(file)
    assert coming.value.suggested_filename == f"evidence-{run}.zip"
    report = verify_bundle(file, [load_public(server.folder / "runs.db.pub")])
    assert not report.of("broken"), report.findings
    assert any(one.what == f"run {run}" for one in report.of("proved"))
    expect(dialog.get_by_role("alert")).to_have_count(0)
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_be_hidden()


def test_who_has_not_the_right_is_not_offered_it(server: Server, person: People, browser: Any) -> None:
    run, doors = a_memo(server)
    guest = a_guest(browser, a_link(person().see(run), "View", "ann"))
    expect(word(guest)).to_have_text("Running")
    expect(guest.get_by_role("button", name="Evidence", exact=True)).to_have_count(0)
    guest.context.close()
    let_it_end(server, doors)
