"""How a new interpreter finds a tool's function again."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from standfast.errors import BadTool

RUNNERS = frozenset({"run", "run_until_complete", "run_forever", "serve_forever"})
GUARD_HINT = 'put it under `if __name__ == "__main__":`, or move the tool into a module of its own'


def process_target(fn: Callable[..., Any]) -> tuple[str, str | None, str]:
    """The module, the script's path (if the module is `__main__`) and the name by which a new process finds `fn`.

    BadTool says why, if it cannot.
    """
    module: str = fn.__module__
    qualname: str = fn.__qualname__
    if "<" in qualname:  # "<locals>", "<lambda>"
        raise BadTool(
            f"{qualname} cannot run in a process of its own: a new process cannot find it by name",
            hint="define a process=True tool with def at the top level of a module",
        )
    if module != "__main__":
        return module, None, qualname
    main = sys.modules["__main__"]
    file = getattr(main, "__file__", None)
    if file is None or not (path := Path(file).absolute()).is_file():
        raise BadTool(
            f"{qualname} cannot run in a process of its own: its code is in no file",
            hint="define a process=True tool in a module or script, not interactively",
        )
    try:
        line = unguarded_line(path.read_bytes())
    except (OSError, SyntaxError, ValueError) as error:
        raise BadTool(
            f"{qualname} cannot run in a process of its own: {path.name} cannot be read ({error})",
            hint="a new process loads that file: it must be a readable Python script",
        ) from error
    if line is not None:
        raise BadTool(
            f"{qualname} cannot run in a process of its own: line {line} of {path.name} "
            "would run the whole program again there",
            hint=GUARD_HINT,
        )
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.origin == file:  # python -m package.module: importable by its real name
        return spec.name, None, qualname
    return module, str(path), qualname


def unguarded_line(source: bytes) -> int | None:
    """The first line that would run the program when the script is loaded under another name."""
    tree = ast.parse(source)
    running = _running_functions(tree)
    for call in _calls_at_load(tree.body):
        if _runs(call, running):
            return call.lineno
    return None


def _running_functions(tree: ast.Module) -> set[str]:
    """Functions of this script that start an event loop or the like, also through one another."""
    bodies = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    running: set[str] = set()
    while True:
        more = {
            name
            for name, node in bodies.items()
            if name not in running and any(_runs(call, running) for call in _calls_at_load(node.body))
        }
        if not more:
            return running
        running |= more


def _runs(call: ast.Call, running: set[str]) -> bool:
    match call.func:
        case ast.Attribute(attr=name):
            return name in RUNNERS
        case ast.Name(id=name):
            return name in RUNNERS or name in running
        case _:
            return False


def _calls_at_load(body: list[ast.stmt]) -> Iterator[ast.Call]:
    """The calls made when these statements run, but for those under the guard and in definitions."""
    todo: list[ast.AST] = list(reversed(body))
    while todo:
        node = todo.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and _is_guard(node.test):
            todo.extend(reversed(node.orelse))
            continue
        if isinstance(node, ast.Call):
            yield node
        todo.extend(reversed(list(ast.iter_child_nodes(node))))


def _is_guard(test: ast.expr) -> bool:
    match test:
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
            return {_text(left), _text(right)} == {"__name__", "'__main__'"}
        case ast.BoolOp(op=ast.And(), values=values):
            return any(_is_guard(value) for value in values)
        case _:
            return False


def _text(node: ast.expr) -> str:
    return ast.unparse(node)
