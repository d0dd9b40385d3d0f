"""Every limit of the code is in the table of limits, and every row of it names a test that is there (R34)."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "standfast"
LIMIT = re.compile(r"_?([A-Z]+_)*(MOST|LONGEST|DEEPEST|SHORTEST|LIMITS?|MAX|LARGEST)(_[A-Z]+)*")


def _table() -> Any:
    spec = importlib.util.spec_from_file_location("limits_table", ROOT / "docs" / "limits_table.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules["limits_table"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TABLE = _table()
ROWS = [row for rows in TABLE.LIMITS.values() for row in rows]


@cache
def _parsed() -> list[tuple[Path, ast.Module]]:
    return [(path, ast.parse(path.read_text("utf-8"))) for path in SOURCE.rglob("*.py")]


def _in_the_code() -> set[str]:
    found: set[str] = set()
    for path, parsed in _parsed():
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        for node in parsed.body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            names = [
                name for target in targets for name in ast.walk(target or ast.Pass()) if isinstance(name, ast.Name)
            ]
            found |= {f"{module}:{name.id}" for name in names if LIMIT.fullmatch(name.id)}
    return found


def test_every_limit_of_the_code_is_in_the_table() -> None:
    told = {name for row in ROWS for name in row.numbers}
    assert len(_in_the_code()) > 60
    assert _in_the_code() - told - TABLE.NO_LIMITS == set(), "say in docs/limits_table.py what happens there"
    assert TABLE.NO_LIMITS - _in_the_code() == set()
    assert told & TABLE.NO_LIMITS == set()


def _inline() -> list[str]:
    """Numbers that limit something where they stand: nobody would find them, and no table could tell of them."""
    found: list[str] = []
    for path, parsed in _parsed():
        for node in ast.walk(parsed):
            if isinstance(node, ast.keyword) and node.arg in ("max_length", "le", "lt"):
                numbers: list[ast.expr] = [node.value]
            elif isinstance(node, ast.If) and any(isinstance(one, ast.Raise) for one in node.body):
                compared = [one for one in ast.walk(node.test) if isinstance(one, ast.Compare)]
                numbers = [side for one in compared if "len(" in ast.unparse(one) for side in one.comparators]
            else:
                continue
            found += [
                f"{path.relative_to(SOURCE)}:{number.lineno}"
                for number in numbers
                if isinstance(number, ast.Constant) and isinstance(number.value, int) and number.value >= 20
            ]
    return found


def test_no_limit_is_a_number_without_a_name() -> None:
    assert _inline() == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.what[:40])
def test_every_limit_has_a_number_and_a_test(row: Any) -> None:
    for name in row.numbers:
        assert TABLE.value_of(name)
    file, _, test = row.test.partition("::")
    assert re.search(rf"^(async )?def {test}\(", (ROOT / "tests" / file).read_text("utf-8"), re.MULTILINE), row.test
