"""Modules are loaded when they are used, and names are found as if all of them had been."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import standfast
import standfast.server

PACKAGES = (standfast, standfast.server)


def loaded_by(code: str) -> set[str]:
    """The packages, and the modules of ours, that a new process has loaded."""
    told = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}\nprint(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return {name if name.startswith("standfast") else name.partition(".")[0] for name in told.stdout.split()}


def read_by_checkers(package: ModuleType) -> dict[str, str]:
    tree = ast.parse(Path(str(package.__file__)).read_text())
    block = next(one for one in tree.body if isinstance(one, ast.If))
    found = [one for one in block.body if isinstance(one, ast.ImportFrom)]
    return {str(one.module): " ".join(name.name for name in one.names) for one in found}


@pytest.mark.parametrize("package", PACKAGES)
def test_what_is_loaded_later_is_what_a_checker_reads(package: ModuleType) -> None:
    names = {f"{package.__name__}.{module}": " ".join(names.split()) for module, names in package._NAMES.items()}
    assert names == read_by_checkers(package)
    assert sorted(" ".join(names.values()).split()) == package.__all__


@pytest.mark.parametrize("package", PACKAGES)
def test_no_name_is_that_of_a_module_beside_it(package: ModuleType) -> None:
    """Whoever imports that module would find it in the place of the name."""
    beside = {path.stem for path in Path(str(package.__file__)).parent.iterdir()}
    assert beside.isdisjoint(package.__all__)


@pytest.mark.parametrize("package", PACKAGES)
def test_names_are_those_of_their_modules(package: ModuleType) -> None:
    for module, names in package._NAMES.items():
        for name in names.split():
            assert getattr(package, name) is getattr(importlib.import_module(f"{package.__name__}.{module}"), name)
    assert set(package.__all__) <= set(dir(package))


def test_a_name_that_there_is_not_is_told_as_python_does() -> None:
    with pytest.raises(AttributeError, match="module 'standfast' has no attribute 'runtimes'"):
        standfast.runtimes  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'runtimes' from 'standfast'"):
        from standfast import runtimes  # type: ignore[attr-defined]  # noqa: F401, PLC0415


def test_modules_are_attributes_after_a_plain_import() -> None:
    assert "standfast.errors" in loaded_by("import standfast\nassert standfast.errors.Misuse is standfast.Misuse")


def test_processes_load_what_they_need() -> None:
    assert loaded_by("import standfast").isdisjoint({"asyncio", "pydantic", "sqlite3"})
    assert "pydantic" not in loaded_by("import standfast.cli.app")
    tool = loaded_by("import standfast.bodies.process_main")
    assert tool.isdisjoint({"sqlite3", "standfast.runtime", "standfast.tools"}), "its own module loads what it uses"
    worker = loaded_by("import standfast.server.worker")
    assert worker.isdisjoint({"starlette", "uvicorn", "click", "standfast.llm_agent", "standfast.tripwire"})
    assert loaded_by("import standfast.cli.local").isdisjoint({"http", "starlette", "textual", "standfast.models"})
