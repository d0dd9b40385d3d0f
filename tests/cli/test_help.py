"""The list of all commands: told without loading any of them, in their own words."""

from __future__ import annotations

import importlib.util

import click
import pytest
from click.testing import CliRunner
from tests.server.serving import ROOT

from standfast.cli.app import SECTIONS, standfast


def test_what_is_said_of_a_command_is_its_own_short_help() -> None:
    said = {name: short for names in SECTIONS.values() for name, (_, short) in names.items()}
    context = click.Context(standfast)
    own = {name: standfast.get_command(context, name) for name in said}
    assert said == {name: command.get_short_help_str(90) for name, command in own.items() if command is not None}


def test_a_command_without_its_extra_says_so_in_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec

    def without(name: str, package: str | None = None) -> object:
        return None if name in ("textual", "uvicorn") else found(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    told = CliRunner().invoke(standfast, ["--help"]).stdout
    assert "(watch needs textual)" in told
    assert "(serve needs uvicorn)" in told
    assert "List runs; those that need someone on top." in told


def test_the_guide_names_every_command() -> None:
    guide = (ROOT / "docs" / "guide" / "terminal.md").read_text("utf-8")
    rows = [line for line in guide.splitlines() if line.startswith("| **")]
    assert len(rows) == len(SECTIONS)
    for title, names in SECTIONS.items():
        (row,) = (row for row in rows if row.startswith(f"| **{title}**"))
        assert [name for name in names if f"`{name}`" not in row] == []
