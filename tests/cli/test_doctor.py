"""`standfast doctor`: what is wrong is found, named, and comes with what to do; nothing is changed."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.helpers import database
from tests.programs import typed

from standfast import Runtime
from standfast.cli.app import standfast


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "runs.db"

    async def make() -> None:
        async with Runtime(path, [typed.steps]) as runs:
            await (await runs.start(typed.steps, typed.Steps(), id="one")).result(timeout=120)

    asyncio.run(make())
    return path


def doctor(store: Path, *more: str) -> Result:
    return CliRunner().invoke(standfast, ["doctor", "--store", str(store), *more])


def findings(store: Path) -> dict[str, Any]:
    return {one["what"]: one for one in json.loads(doctor(store, "--json").stdout)["findings"]}


def test_a_healthy_store_is_well(store: Path) -> None:
    result = doctor(store)
    assert result.exit_code == 0, result.stdout
    assert "1 hold together" in result.stdout
    assert "all is well" in result.stdout
    assert findings(store)["store"]["verdict"] == "ok"


def test_a_store_that_others_can_read_is_named(store: Path) -> None:
    store.chmod(0o644)
    result = doctor(store)
    assert result.exit_code == 1
    assert "chmod 600" in result.stdout


def test_a_token_file_that_others_can_read_is_named(store: Path, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("a-token-of-some-server")
    for mode, code in ((0o644, 1), (0o600, 0)):
        file.chmod(mode)
        result = doctor(store, "--token-file", str(file))
        assert (result.exit_code, "can read the token" in result.stdout) == (code, mode == 0o644)


def test_a_record_that_was_changed_from_outside_is_found(store: Path) -> None:
    """R32: the chain tells."""
    with database(store) as connection:
        changed = connection.execute(
            "UPDATE record SET body = replace(body, 'run_started', 'run_startle')"
            " WHERE rowid = (SELECT min(rowid) FROM record)"
        )
        assert changed.rowcount == 1
    connection.close()
    result = doctor(store)
    assert result.exit_code == 1
    assert "one: " in result.stdout
    assert doctor(store, "--quick").exit_code == 0


def test_a_file_that_is_no_store_is_named(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with database(path) as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    path.chmod(0o600)
    result = doctor(path)
    assert result.exit_code == 1
    assert "not a standfast store" in result.stdout


def test_no_store_yet_is_no_fault_and_none_is_made(tmp_path: Path) -> None:
    result = doctor(tmp_path / "runs.db")
    assert result.exit_code == 0
    assert "made by the first run" in result.stdout
    assert not (tmp_path / "runs.db").exists()
