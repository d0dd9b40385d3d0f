"""Every file that a command takes, with whatever may be in it: an exit code and a line, never a traceback (R34).

The commands and their files are those that click knows: a new one is tried from its first day.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest
from click.testing import CliRunner, Result
from hypothesis import strategies as st
from tests.fuzz import hostile
from tests.fuzz.profile import SOAK, tried
from tests.fuzz.verdicts import verdict
from tests.helpers import database
from tests.programs.served import Count

from standfast import Done, Run, Runtime, agent
from standfast.cli.app import standfast
from standfast.cli.codes import Code
from standfast.cli.options import JsonText

EXAMPLES = 2  # of each file of each command
APART = {"run", "serve", "watch", "operator"}  # they take over the process they run in
CLEAN: dict[str, str | None] = {name: None for name in os.environ if name.startswith("STANDFAST_")}
CODES = {int(code) for code in Code}


def commands() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """All of them, with their words."""

    def below(group: click.Group, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
        context = click.Context(group)
        for name in group.list_commands(context):
            found = group.get_command(context, name)
            assert found is not None
            if isinstance(found, click.Group):
                yield from below(found, (*words, name))
            else:
                yield (*words, name), found

    yield from below(standfast, ())


def takes_file(param: click.Parameter) -> bool:
    return isinstance(param.type, click.Path | click.File | JsonText)


def everything() -> list[tuple[tuple[str, ...], str]]:
    """Every command with each of its files."""
    return [(words, param.name or "") for words, one in commands() for param in one.params if takes_file(param)]


def command_line(words: tuple[str, ...], name: str, file: Path) -> list[str]:
    """The command with that file, and something for everything else that it needs."""
    command = dict(commands())[words]
    line = list(words)
    for param in command.params:
        value = f"@{file}" if isinstance(param.type, JsonText) else str(file)
        if param.name == name:
            line += [value] if isinstance(param, click.Argument) else [param.opts[0], value]
        elif param.required:
            line += _something(param)
    if name == "certfile":
        line += ["--keyfile", str(file)]
    elif name == "keyfile":
        line += ["--certfile", str(file)]
    return line


def _something(param: click.Parameter) -> list[str]:
    known = {"agent": "tests.programs.served:quiet", "agents": "tests.programs.served:quiet", "run": "r"}
    value = known.get(param.name or "", "{}" if isinstance(param.type, JsonText) else "1")
    if isinstance(param.type, click.Choice):
        value = str(param.type.choices[0])
    return [value] if isinstance(param, click.Argument) else [param.opts[0], value]


@agent("told")
async def told(run: Run[Count]) -> Done[None]:
    return Done(None)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A store as it should be, to be broken in many ways."""
    path = tmp_path_factory.mktemp("whole") / "runs.db"

    async def fill() -> None:
        async with Runtime(path, [told]) as runs:
            await (await runs.start(told, Count(), id="r")).result()

    asyncio.run(fill())
    with database(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return path.read_bytes()


class Content(NamedTuple):
    """What stands in a file; a failure tells what it is, not its half a million bytes."""

    told: str
    raw: bytes

    def __repr__(self) -> str:
        return self.told


def _flipped(whole: bytes, place: int, bits: int) -> bytes:
    return whole[:place] + bytes([whole[place] ^ bits]) + whole[place + 1 :]


def contents(whole: bytes) -> st.SearchStrategy[Content]:
    """Texts, JSON, bytes, and stores that something has gone wrong with."""
    place = st.integers(0, len(whole) - 1)
    flipped = st.tuples(place, st.integers(1, 255)).map(
        lambda two: Content(f"byte {two[0]} of the store ^ {two[1]}", _flipped(whole, *two))
    )
    cut = place.map(lambda at: Content(f"the first {at} bytes of the store", whole[:at]))
    json = st.tuples(hostile.values, hostile.bodies).map(lambda two: two[1](hostile.written(two[0])))
    fixed = [b"", b"\x00" * 5000, b"\xff\xfe", b"a\nb\n", whole, whole[:100], whole[:4096], b"GGUF" + b"\xff" * 60]
    plain = st.one_of(st.sampled_from(fixed), json, st.binary(max_size=200))
    return st.one_of(plain.map(lambda content: Content(repr(content[:200]), content)), flipped, cut)


def judge(code: int, said: str, line: list[str]) -> None:
    assert code in CODES, (line, code, said)
    assert "Traceback" not in said, (line, said)
    assert code == 0 or said.strip(), f"{line}: {code} without a word"


@pytest.mark.soak
@pytest.mark.parametrize(("words", "name"), [one for one in everything() if one[0][0] not in APART])
def test_no_file_breaks_a_command(words: tuple[str, ...], name: str, store: bytes, tmp_path: Path) -> None:
    file = tmp_path / "given"
    line = command_line(words, name, file)
    if name != "store" and any(param.name == "store" for param in dict(commands())[words].params):
        whole = tmp_path / "runs.db"
        whole.write_bytes(store)
        line += ["--store", str(whole)]

    @tried(EXAMPLES, f"{words} {name}", content=contents(store))
    def type_it(content: Content) -> None:
        for old in tmp_path.glob("given*"):
            old.unlink()
        file.write_bytes(content.raw)
        result = CliRunner().invoke(standfast, line, env=CLEAN, input="")
        judge(result.exit_code, result.output + _broke(result), line)
        if name != "store":
            assert file.read_bytes() == content.raw, "what is read is not changed"

    type_it()
    file.unlink()
    result = CliRunner().invoke(standfast, line, env=CLEAN, input="")
    judge(result.exit_code, result.output + _broke(result), line)


def _broke(result: Result) -> str:
    """What CliRunner has caught and a person would have seen."""
    error = result.exception
    return "" if error is None or isinstance(error, SystemExit) else f"Traceback: {type(error).__name__}: {error}"


OWN = [b"\xff\xfe\x00", b"not a store at all\n" * 300, b""]
NO_WORK = {"certfile", "keyfile", "token_file", "state", "budget", "caps"}  # what is no store is refused, or was good


@pytest.mark.soak
@pytest.mark.parametrize(("words", "name"), [one for one in everything() if one[0][0] in APART])
def test_nor_one_that_has_a_process_of_its_own(words: tuple[str, ...], name: str, store: bytes, tmp_path: Path) -> None:
    given = [*OWN[1::-1], store[:5000]] if name == "store" else OWN
    for content in given if SOAK else given[:1]:
        file = tmp_path / "given"
        for old in tmp_path.glob("given*"):
            old.unlink()
        file.write_bytes(content)
        line = command_line(words, name, file)
        line += ["--store", str(tmp_path / "runs.db")] if name != "store" else []
        line += ["--port", "0"] if words == ("serve",) else []
        found = verdict(line, tmp_path / "said")
        judge(found.code, found.said, line)
        assert not found.at_work or found.code == 0, found
        assert file.read_bytes() == content, "what is no store is not made one"
        if name in NO_WORK and content == OWN[0]:
            assert not found.at_work and found.code != 0, f"{line}: it went on with a file that it cannot read: {found}"


def test_one_that_can_work_is_seen_at_work_and_goes_when_it_is_told_to(tmp_path: Path) -> None:
    """So that a verdict above means something."""
    file = tmp_path / "token"
    file.write_text("a-token-of-twenty-letters")
    serving = ["serve", "tests.programs.served:quiet", "--store", str(tmp_path / "runs.db"), "--port", "0"]
    found = verdict([*serving, "--token-file", str(file)], tmp_path / "said")
    assert (found.code, found.at_work) == (0, True), found
    found = verdict(["operator", "--store", str(tmp_path / "runs.db")], tmp_path / "said")
    assert (found.code, found.at_work) == (0, True), found
