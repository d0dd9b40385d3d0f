"""Ordinary text: what installed packages and the standard library say about themselves."""

from __future__ import annotations

import ast
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path

_PROSE = frozenset({".md", ".rst", ".txt"})


def texts(most: int) -> Iterator[str]:
    """Documents and docstrings, in a fixed order, each once, up to so many characters."""
    seen: set[int] = set()
    total = 0
    for path in _files():
        for text in _of(path):
            if len(text) < 40 or hash(text) in seen:
                continue
            seen.add(hash(text))
            total += len(text)
            yield text
            if total >= most:
                return


def _files() -> Iterator[Path]:
    places = {Path(sysconfig.get_path(name)) for name in ("purelib", "platlib", "stdlib")}
    for place in sorted(places):
        for path in sorted(place.rglob("*")):
            if path.suffix in (*_PROSE, ".py") or path.name == "METADATA":
                yield path


def _of(path: Path) -> Iterator[str]:
    try:
        body = path.read_text(encoding="utf-8")
    except (UnicodeDecodeError, OSError):
        return
    if path.suffix != ".py":
        yield body
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # escapes of other people's strings
            tree = ast.parse(body)
    except (SyntaxError, ValueError):
        return
    parts: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            doc = ast.get_docstring(node)
            if doc:
                parts.append(doc)
    yield "\n\n".join(parts)
