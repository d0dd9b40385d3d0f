"""The other side of a process tool: `python -m standfast.bodies.process_main` performs one call and exits.

One line of JSON comes in on stdin. What the tool says, and at last its result or error, go out
as lines of JSON on a pipe of their own, so that the tool may print what it likes.
"""

from __future__ import annotations

import asyncio
import ctypes
import importlib
import inspect
import json
import os
import runpy
import signal
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable
from types import ModuleType
from typing import Any, Protocol, cast

from standfast.bodies.threads import Token
from standfast.contained import text_of
from standfast.context import StopToken, current_call
from standfast.errors import BadTool, Misuse, NotPerformed

MAIN_NAME = "__standfast_main__"  # not "__main__", so that the script's guard holds
PR_SET_PDEATHSIG = 1


class ProcessTool(Protocol):
    """What this side needs of a tool."""

    @property
    def fn(self) -> Callable[..., Any]: ...

    def load_args(self, raw: bytes) -> dict[str, Any]: ...

    def dump_result(self, value: Any) -> bytes: ...


class Lines:
    """Sends lines of JSON to the parent, whole, from any thread."""

    def __init__(self, fd: int) -> None:
        os.set_inheritable(fd, False)  # programs started by the tool must not hold it
        self._fd = fd
        self._lock = threading.Lock()

    def send(self, kind: str, **fields: Any) -> None:
        rest = memoryview(json.dumps({"kind": kind, **fields}).encode() + b"\n")
        with self._lock:
            while rest:
                rest = rest[os.write(self._fd, rest) :]


class ProcessCall:
    """The call as the tool's body sees it from this process."""

    def __init__(self, key: str, lines: Lines) -> None:
        self.key = key
        self._lines = lines
        self._token = Token()

    @property
    def stop_token(self) -> StopToken:
        """Never stopped: this process is killed instead."""
        return self._token

    @property
    def in_process_tool(self) -> bool:
        return True

    def begin_program(self, *, clean_up: bool = False) -> str:  # noqa: ARG002 - nothing is started after a cut
        """Nothing beside what this process carries itself, and its programs inherit."""
        return ""

    def pieces(self) -> None:
        """Threads end with this process."""

    @property
    def time_left(self) -> None:
        """So do tasks."""

    def use(self, type_: type[Any]) -> Any:
        raise Misuse(
            f"use({type_.__name__}) does not work in a process tool",
            hint="dependencies do not cross processes: make it inside the tool, or drop process=True",
        )

    def say(self, text: str) -> None:
        self._lines.send("say", text=text)

    def spend(self, input_tokens: int, output_tokens: int, cost: float) -> None:
        self._lines.send("spend", input_tokens=input_tokens, output_tokens=output_tokens, cost=cost)

    def progress(self, fraction: float, text: str) -> None:
        self._lines.send("progress", fraction=fraction, text=text)


def main() -> None:
    """Perform the one call described on stdin."""
    stdin = take_stdin()
    with os.fdopen(os.dup(stdin), "rb") as order_pipe:
        order: dict[str, Any] = json.loads(order_pipe.readline())
    die_with(order["parent"], stdin)
    sys.path[:] = order["sys_path"]
    if order["python_path"] is None:
        os.environ.pop("PYTHONPATH", None)
    else:
        os.environ["PYTHONPATH"] = order["python_path"]
    lines = Lines(order["lines"])
    current_call.set(ProcessCall(order["key"], lines))
    try:
        tool = find_tool(order["module"], order["path"], order["qualname"])
        value = perform(tool.fn, tool.load_args(order["args"].encode()))
        result = tool.dump_result(value).decode()
    except BaseException as error:  # noqa: BLE001 - crosses to the parent
        lines.send(
            "error",
            type=type(error).__name__,
            message=text_of(error),
            traceback="".join(traceback.format_exception(error)),
            not_performed=isinstance(error, NotPerformed),
        )
    else:
        lines.send("result", json=result)


def take_stdin() -> int:
    """Our own copy of stdin; the tool gets an empty one."""
    mine = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return mine


def die_with(parent: int, stdin: int) -> None:
    """End this process when its parent ends, however that happens."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before we asked
            os._exit(1)
    threading.Thread(target=_die_at_end_of, args=(stdin,), name="standfast-parent-watch", daemon=True).start()


def _die_at_end_of(stdin: int) -> None:
    while os.read(stdin, 4096):
        pass
    os.killpg(os.getpgrp(), signal.SIGKILL)


def find_tool(module: str, path: str | None, qualname: str) -> ProcessTool:
    found: Any = load_script(path) if path is not None else importlib.import_module(module)
    for name in qualname.split("."):
        found = getattr(found, name)
    if not all(hasattr(found, name) for name in ("fn", "load_args", "dump_result")):
        raise BadTool(
            f"{module}:{qualname} is no tool in a new process",
            hint="the name must hold the decorated tool, also when the module is imported afresh",
        )
    return cast("ProcessTool", found)


def load_script(path: str) -> ModuleType:
    module = ModuleType(MAIN_NAME)
    sys.modules[MAIN_NAME] = module  # where lazily evaluated annotations are looked up
    module.__dict__.update(runpy.run_path(path, run_name=MAIN_NAME))
    return module


def perform(fn: Callable[..., Any], args: dict[str, Any]) -> Any:
    value = fn(**args)
    return asyncio.run(_awaited(value)) if inspect.isawaitable(value) else value


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value


if __name__ == "__main__":
    main()
