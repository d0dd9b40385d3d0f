"""Every Python snippet in README and docs runs, and prints what it says it prints."""

from __future__ import annotations

import json
import os
import re
import shlex
import sqlite3
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from tests.docs.snippets import PAGES, ROOT, Snippet, run_page, save_files, snippets_of
from tests.helpers import database

HERE = Path(__file__).parent
INSTALLS = re.compile(
    r"\bpip install ((?:[\w.-]+|'[^'\n]+'|\"[^\"\n]+\")+(?: (?:'[^'\n]+'|\"[^\"\n]+\"|[a-z][\w.-]+))*)"
)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


def _with_snippets() -> list[Any]:
    """The pages, each with the mark of what it needs; `make test` runs those of the README."""
    needs = {"README.md": [], "local-model.md": [pytest.mark.local_model, pytest.mark.more]}
    return [
        pytest.param(page, id=page.relative_to(ROOT).as_posix(), marks=needs.get(page.name, [pytest.mark.more]))
        for page in PAGES
        if snippets_of(page)
    ]


@pytest.mark.parametrize("page", _with_snippets())
def test_the_snippets_of_a_page_run_as_a_file_with_what_the_page_says_is_to_be_installed(
    page: Path, tmp_path: Path
) -> None:
    run_page(page, tmp_path, str(HERE / "installed.py"), "sample.py", *brought_by(*wanted_by(page)))


@pytest.mark.parametrize(
    ("page", "snippet"),
    [
        pytest.param(page, one, id=f"{page.relative_to(ROOT).as_posix()}:{one.line}")
        for page in PAGES
        for one in snippets_of(page)
        if one.is_program
    ],
)
def test_a_snippet_that_looks_like_a_program_needs_no_names_of_the_snippets_above_it(
    page: Path, snippet: Snippet
) -> None:
    """Run as one file with the others, it would find theirs; a reader who copies it alone would not."""
    assert undefined_in(snippet.code) == [], f"{page.name}:{snippet.line}"


def undefined_in(code: str) -> list[str]:
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821", "--output-format", "json", "-"]
    found = subprocess.run(command, input=code, capture_output=True, text=True, timeout=60, check=False)
    return [one["message"] for one in json.loads(found.stdout)]


def test_a_name_that_is_imported_nowhere_is_noticed() -> None:
    assert undefined_in("import asyncio\nasyncio.run(Runtime())\n") == ["Undefined name `Runtime`"]


def wanted_by(page: Path) -> list[str]:
    """What a reader of the page has installed: standfast with the extras that it names, and what else it names."""
    return ["standfast", *(one for line in INSTALLS.findall(page.read_text("utf-8")) for one in shlex.split(line))]


def brought_by(*requirements: str) -> set[str]:
    """The distributions that come with these, and with those."""
    found: set[str] = set()
    left = [Requirement(one) for one in requirements]
    while left:
        wanted = left.pop()
        done = {f"{wanted.name}[{extra}]" for extra in wanted.extras} | {wanted.name}
        if done <= found:
            continue
        found |= done
        for one in map(Requirement, metadata.requires(wanted.name) or ()):
            if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in ("", *wanted.extras)):
                left.append(one)
    return {one for one in found if "[" not in one}


def test_a_program_does_not_find_what_was_not_installed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nimport httpx2\n```\n")
    with pytest.raises(AssertionError, match="No module named 'httpx2'"):
        run_page(page, tmp_path, str(HERE / "installed.py"), "sample.py", *brought_by("standfast[server]"))
    assert run_page(page, tmp_path, str(HERE / "installed.py"), "sample.py", *brought_by("httpx2")) == 1


def test_a_sample_that_is_no_program_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nasync with nothing():\n    pass\n```\n")
    with pytest.raises(AssertionError, match="'async with' outside async function"):
        run_page(page, tmp_path)


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
        run_page(page, tmp_path)


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

    def until(self, status: str, *texts: str) -> None:
        """Until `control.py view` shows it; not asked before the run has that status, as it takes half a second."""
        end = time.monotonic() + 120
        while self.status() != status:
            assert time.monotonic() < end, self.status()
            time.sleep(0.02)
        while not all(text in (view := self.control("view")) for text in (status, *texts)):
            assert time.monotonic() < end, view
            time.sleep(0.3)

    def status(self) -> str:
        """Of the run, by its row; nothing while it is not there."""
        try:
            with database(f"file:{self.folder / 'book.db'}?mode=ro", uri=True) as db:
                return "".join(status for (status,) in db.execute("SELECT status FROM runs"))
        except sqlite3.OperationalError:  # no file yet, or no table
            return ""


def test_the_tutorial_controls_its_agent_from_another_process(tmp_path: Path) -> None:
    """R1, R2: with the tutorial's own two files, and a kill -9 in between."""
    files = Files(tmp_path)
    writer = files.start("writer.py")
    try:
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
