"""Equal secrets look equal in the record, also before the first process that signs has made the store's key (R32)."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from click.testing import CliRunner
from tests.evidence.test_key_changes import quick
from tests.evidence.world import Letters

from standfast import Runtime
from standfast.cli.app import standfast
from standfast.evidence import keys

SECRET = "sk-" + "A1b2C3d4E5f6G7h8I9j0"


def hashes(runs: Runtime) -> set[str]:
    """What stands for the secret, wherever it was written."""
    house = [str(row[2]) for row in runs.read(lambda tx: list(tx.plain_house()))]
    record = [str(row[2]) for row in runs.read(lambda tx: [r for n in tx.plain_runs() for r in tx.plain_record(n)])]
    assert SECRET not in "".join([*house, *record])
    return set(re.findall(r"\[redacted:[a-z_ -]+:([0-9a-f]{8})\]", "".join([*house, *record])))


async def test_each_process_that_only_asks_gives_a_secret_the_same_hash_before_anything_was_signed(
    tmp_path: Path,
) -> None:
    path = tmp_path / "runs.db"
    for name in ("one", "two"):
        async with Runtime(path, [quick], drive=False) as runs:
            await runs.start(quick, Letters(), id=name, reason=f"with {SECRET}")
    async with Runtime(path, [quick]) as runs:
        await runs.handle("one").result()
        await runs.start(quick, Letters(), id="three", reason=SECRET)
        await runs.halt(agent="nobody", reason=SECRET)
        assert len(hashes(runs)) == 1


async def test_a_process_that_was_there_before_the_key_uses_it_too(tmp_path: Path) -> None:
    """A server opens the store before its workers do."""
    path = tmp_path / "runs.db"
    async with Runtime(path, [quick], drive=False) as first:
        async with Runtime(path, [quick]) as second:
            await second.start(quick, Letters(), id="one", reason=SECRET)
        await first.start(quick, Letters(), id="two", reason=SECRET)
        assert len(hashes(first)) == 1


async def test_a_key_is_made_only_where_a_secret_needs_one_and_never_for_who_signs_nothing(tmp_path: Path) -> None:
    for name, notary, reason, made in (
        ("a", True, "plain", False),
        ("b", False, SECRET, False),
        ("c", True, SECRET, True),
    ):
        path = tmp_path / f"{name}.db"
        async with Runtime(path, [quick], drive=False, notary=notary) as runs:
            await runs.start(quick, Letters(), reason=reason)
        assert keys.key_path(path).exists() == made, name


async def test_what_a_command_writes_has_the_hash_of_what_others_write(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with Runtime(path, [quick], drive=False) as runs:
        await runs.start(quick, Letters(), id="one")
    asked = ["token", "create", "--right", "view", "--all", "--name", SECRET, "--store", str(path)]
    for _ in range(2):
        done = await asyncio.to_thread(CliRunner().invoke, standfast, asked)
        assert done.exit_code == 0, done.output
    async with Runtime(path, [quick], drive=False) as runs:
        await runs.handle("one").pause(reason=SECRET)
        assert len(hashes(runs)) == 1
