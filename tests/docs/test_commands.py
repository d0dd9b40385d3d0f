"""Every command in README and docs is one: by the real command line, make's targets, pip's extras, the routes."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import pytest
from packaging.requirements import Requirement
from tests.docs.snippets import PAGES, ROOT

from standfast.cli.app import standfast
from standfast.server.operations import OPERATIONS

SHELL = ("```", "```sh", "```console")
OTHERS = {"unzip", "age", "curl", "make", "pip", "standfast", "python"}  # what readers are told to type
STREAMS = {("GET", "/api/runs/{id}/events"), ("GET", "/api/events")}


def commands() -> list[Any]:
    """Each command of each page, by the line it stands in."""
    found: list[Any] = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for line, typed in _lines(text):
            for words in _words(typed):
                name = f"{page.relative_to(ROOT).as_posix()}:{line}"
                found.append(pytest.param(words, id=f"{name} {' '.join(words)[:40]}"))
    return found


def _lines(text: str) -> list[tuple[int, str]]:
    """Lines of shell blocks that are commands, those that go on in the next one put together."""
    found: list[tuple[int, str]] = []
    within = ""
    goes_on = False
    for n, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            within = "" if within else line
        elif within in SHELL and goes_on:
            found[-1] = found[-1][0], found[-1][1].removesuffix("\\") + line.strip()
        elif within in SHELL and line.removeprefix("$ ").split(" ")[0] in OTHERS:
            found.append((n, line.removeprefix("$ ")))
        else:
            continue
        goes_on = bool(within) and line.endswith("\\")
    return found


def _words(line: str) -> list[list[str]]:
    words = shlex.split(line, comments=True)
    parts: list[list[str]] = [[]]
    for word in words:
        if word in ("|", "&&", ";"):
            parts.append([])
        else:
            parts[-1].append(word)
    return [part for part in parts if part]


@pytest.mark.parametrize("words", commands())
def test_a_command_of_the_docs_is_one(words: list[str]) -> None:
    match words[0]:
        case "standfast":
            _parses(words[1:])
        case "make":
            targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
            assert words[1] in targets
        case "pip":
            _installs(words)
        case "curl":
            _asks(words)
        case other:
            assert other in OTHERS


def _parses(words: list[str]) -> None:
    """As the command itself reads it; nothing is done."""
    with standfast.make_context("standfast", list(words), resilient_parsing=False) as context:
        group: Any = standfast
        rest = [*getattr(context, "_protected_args", []), *context.args]
        while isinstance(group, click.Group):
            name, command, rest = group.resolve_command(context, list(rest))
            assert command is not None
            context = command.make_context(name, list(rest), parent=context)
            group, rest = command, [*getattr(context, "_protected_args", []), *context.args]


def _installs(words: list[str]) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert words[1] == "install"
    for one in map(Requirement, (word for word in words[2:] if not word.startswith("-"))):
        if one.name == "standfast":
            assert one.extras <= extras.keys()


def _asks(words: list[str]) -> None:
    """A request for which there is a route."""
    path = next(urlsplit(word).path for word in words if word.startswith("http"))
    method = words[words.index("-X") + 1] if "-X" in words else "POST" if "-d" in words else "GET"
    known = {(each.method, each.path) for each in OPERATIONS} | STREAMS
    shapes = [(m, re.compile(re.sub(r"\{[^}]+\}", "[^/]+", p))) for m, p in known]
    assert any(m == method and shape.fullmatch(path) for m, shape in shapes), (method, path)


def test_there_are_commands_to_look_at() -> None:
    assert len(commands()) > 40


def test_a_command_that_is_none_is_noticed() -> None:
    for wrong in (["pauze", "RUN"], ["cancel", "RUN", "--quickly"], ["verify"]):
        with pytest.raises(click.UsageError):
            _parses(wrong)


def test_what_a_server_prints_is_what_the_docs_say(tmp_path: Path) -> None:
    """Its address on one line, the token on the next, and the address with the token opens the page."""
    import httpx2  # noqa: PLC0415
    from tests.server.serving import LONG, Server  # noqa: PLC0415 - needs the extra

    text = (ROOT / "docs/guide/server.md").read_text()
    server = Server(tmp_path)
    try:
        shown = [re.sub(r"\S+$", "", line) for line in server.said[:2]]
        for line in shown:
            assert f"# {line.strip()}" in text
        answer = httpx2.get(f"{server.url}/?token={server.token}", timeout=LONG, follow_redirects=False)
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        assert "set-cookie" in answer.headers
    finally:
        server.close()


@pytest.mark.parametrize("page", ["page.md", "server.md"])
def test_a_page_of_the_server_says_what_it_needs_and_how_to_open_it(page: str) -> None:
    """The printed address has no token in it: see above."""
    text = (ROOT / "docs/guide" / page).read_text()
    assert "pip install 'standfast[server]'" in text
    assert "?token=TOKEN" in text


def pages_with(command: str) -> list[str]:
    """Pages on which somebody is told to start it."""
    pages = (path for path in (ROOT / "docs").rglob("*.md") if re.search(rf"^ *{command}\b", path.read_text(), re.M))
    return sorted(str(path.relative_to(ROOT)) for path in pages)


@pytest.mark.parametrize("page", pages_with("standfast serve"))
def test_whoever_is_to_start_a_server_is_told_what_to_install(page: str) -> None:
    assert re.search(r"\[[a-z,]*\bserver\b[a-z,]*\]", (ROOT / page).read_text())
