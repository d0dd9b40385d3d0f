"""Everything of the page that needs no browser, in its own tests: reducer, client, words, keys, forms, Markdown."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from tests.browser.serving import ROOT

pytestmark = pytest.mark.more  # npm


def test_the_page_passes_its_own_tests() -> None:
    if shutil.which("npm") is None or not (ROOT / "page" / "node_modules" / "vitest").exists():
        reason = "the page's own tests: npm or its packages not installed (npm install in page/)"
        (pytest.fail if os.environ.get("STANDFAST_REQUIRE_TOOLS") else pytest.skip)(reason)
    done = subprocess.run(
        ["npm", "--loglevel", "error", "test"],
        cwd=ROOT / "page",
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
