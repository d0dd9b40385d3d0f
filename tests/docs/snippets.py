"""Runs the Python snippets of a page, in order, in one namespace.

A block may use `await` at its top. `print(...)  # -> text` is a promise: the block must print
exactly these texts. A block that begins with `# name.py` is a file for the reader to save: it
is written down, not run.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import re
import sys
import types
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])

_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (\w+\.py)\n")
_PROMISED = re.compile(r"^ *print\(.*\)  +# -> (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Snippet:
    line: int
    code: str

    @property
    def file(self) -> str | None:
        named = _FILE.match(self.code)
        return named.group(1) if named else None


def snippets_of(page: Path) -> list[Snippet]:
    text = page.read_text(encoding="utf-8")
    return [Snippet(text.count("\n", 0, found.start(1)) + 1, found.group(1)) for found in _BLOCK.finditer(text)]


def save_files(page: Path, folder: Path) -> None:
    for snippet in snippets_of(page):
        if snippet.file is not None:
            (folder / snippet.file).write_text(snippet.code, encoding="utf-8")


def run_page(page: Path) -> int:
    """Run every snippet of the page; returns how many there are."""
    module = types.ModuleType("docs_page")
    sys.modules[module.__name__] = module  # pydantic looks for types there
    snippets = [snippet for snippet in snippets_of(page) if snippet.file is None]
    try:
        with asyncio.Runner() as runner:
            for snippet in snippets:
                _run(snippet, page, module, runner)
    finally:
        del sys.modules[module.__name__]
    return len(snippets)


def _run(snippet: Snippet, page: Path, module: types.ModuleType, runner: asyncio.Runner) -> None:
    padded = "\n" * (snippet.line - 1) + snippet.code  # tracebacks name the line of the page
    code = compile(padded, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        if code.co_flags & inspect.CO_COROUTINE:
            runner.run(types.FunctionType(code, module.__dict__)())
        else:
            exec(code, module.__dict__)
    promised = _PROMISED.findall(snippet.code)
    said = printed.getvalue().splitlines()
    if promised and said != promised:
        raise AssertionError(f"{page.name}:{snippet.line} promises {promised}, but prints {said}")
