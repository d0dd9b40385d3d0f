"""Every Python snippet in README and docs runs, and prints what it says it prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.docs.snippets import PAGES, ROOT, run_page, save_files, snippets_of

LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


def _with_snippets() -> list[Any]:
    """The pages, each with the mark of what it needs."""
    needs = {"local-model.md": [pytest.mark.local_model]}
    return [
        pytest.param(page, id=page.relative_to(ROOT).as_posix(), marks=needs.get(page.name, []))
        for page in PAGES
        if snippets_of(page)
    ]


@pytest.mark.parametrize("page", _with_snippets())
def test_the_snippets_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save_files(page, tmp_path)
    run_page(page)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    lost = [link for link in LINK.findall(page.read_text(encoding="utf-8")) if not (page.parent / link).exists()]
    assert not lost


def test_every_page_can_be_found_from_the_map() -> None:
    index = ROOT / "docs" / "index.md"
    linked = {(index.parent / link).resolve() for link in LINK.findall(index.read_text(encoding="utf-8"))}
    pages = {page for page in PAGES if page.is_relative_to(index.parent) and page.parent.name != "decisions"}
    assert pages - {index} <= linked


def test_a_snippet_that_prints_something_else_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1 + 1)  # -> 3\n```\n")
    with pytest.raises(AssertionError, match=r"page\.md:2"):
        run_page(page)


class Files:
    """The tutorial's programs, as a reader would save and run them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        save_files(ROOT / "docs" / "tutorial.md", folder)

    def start(self, *command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, *command], cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, text=True
        )

    def control(self, *command: str) -> str:
        done = subprocess.run(
            [sys.executable, "control.py", *command],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def until(self, *texts: str) -> None:
        end = time.monotonic() + 60
        while not all(text in (view := self.control("view")) for text in texts):
            assert time.monotonic() < end, view
            time.sleep(0.1)


def test_the_tutorial_controls_its_agent_from_another_process(tmp_path: Path) -> None:
    """R1, R2: with the tutorial's own two files, and a kill -9 in between."""
    files = Files(tmp_path)
    writer = files.start("writer.py")
    try:
        end = time.monotonic() + 60
        while not (tmp_path / "book.db").exists():
            assert time.monotonic() < end
            time.sleep(0.05)
        time.sleep(0.5)
        files.until("running")
        assert files.control("pause").startswith("Accepted")
        files.until("paused")
        assert files.control("redirect", "dogs").startswith("Accepted")
        writer.kill()
        writer.communicate()
        writer = files.start("writer.py")
        assert files.control("resume").startswith("Accepted")
        files.until("running", "about dogs")
        assert files.control("cancel").startswith("Accepted")
        files.until("cancelled")
        told, _ = writer.communicate(timeout=60)
        assert "cancelled" in told
    finally:
        writer.kill()
        writer.communicate()
