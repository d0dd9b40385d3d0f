"""Tools in processes of their own: whatever they do, they can be killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from standfast.bodies import Cut, RemoteError
from standfast.bodies.children import Child
from standfast.bodies.marks import marked
from standfast.bodies.pipes import PipeReader, PipeWriter
from standfast.bodies.targets import process_target

EXIT_GRACE = 1.0  # how long the interpreter may take to end after the tool has

__all__ = ["ProcessBody", "process_target"]


class ProcessBody:
    """Runs a tool's function in a new interpreter, which `cut()` kills with everything it has started.

    `future` is done only when that process has ended: with the tool's result as JSON, RemoteError
    for an exception in the tool, or Cut. A result that was complete before the kill counts.
    """

    future: asyncio.Future[bytes]

    def __init__(
        self,
        *,
        module: str,
        path: str | None,
        qualname: str,
        args_json: bytes,
        key: str,
        mark: str = "",
        on_say: Callable[[str], None],
        on_spend: Callable[[int, int, float], None],
        on_progress: Callable[[float, str], None],
    ) -> None:
        self._order = {"module": module, "path": path, "qualname": qualname, "args": args_json.decode(), "key": key}
        self._mark = mark
        self._title = f"{module}:{qualname}"
        self._on_say = on_say
        self._on_spend = on_spend
        self._on_progress = on_progress
        loop = asyncio.get_running_loop()
        self.future = loop.create_future()
        self._child: Child | None = None
        self._cut = threading.Event()
        self._unread = bytearray()
        # the tool's last line, its result or its error; or what a listener raised
        self._last_line: asyncio.Future[dict[str, Any]] = loop.create_future()
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the process; a body cut before this starts none."""
        if self._cut.is_set():
            self.future.set_exception(Cut(f"{self._title} was cut before it started"))
            return
        lines, lines_of_child = os.pipe()
        reader = os.fdopen(lines, "rb", buffering=0)
        try:
            self._child = child = Child(
                # -P: what lies in the working directory must not stand in for our modules
                [sys.executable, "-P", "-m", "standfast.bodies.process_main"],
                new_session=True,
                stdin=subprocess.PIPE,
                env=marked(os.environ | {"PYTHONPATH": _python_path()}, self._mark),
                pass_fds=(lines_of_child,),
            )
        except BaseException:
            reader.close()
            raise
        finally:
            os.close(lines_of_child)
        order = self._order | {
            "lines": lines_of_child,
            "parent": os.getpid(),
            "sys_path": [str(entry) for entry in sys.path],
            "python_path": os.environ.get("PYTHONPATH"),
        }
        assert child.process.stdin is not None
        # stays open as long as we live: its end tells the child that we are gone
        stdin = PipeWriter(child.process.stdin, json.dumps(order).encode() + b"\n", then_close=False)
        self._watching = asyncio.create_task(self._watch(child, PipeReader(reader, self._read), stdin))
        if self._cut.is_set():  # from another thread, meanwhile
            child.kill()

    def cut(self) -> None:
        """Kill the process and its whole tree; returns at once, from any thread, harmless when repeated."""
        self._cut.set()
        if self._child is not None:
            self._child.kill()

    def where(self) -> str:
        """The process, such as "process 123 (tools:crunch)"; "" if there is none."""
        if self._child is None or self.future.done():
            return ""
        return f"process {self._child.pid} ({self._title})"

    # --- from the process ------------------------------------------------------------------

    async def _watch(self, child: Child, reader: PipeReader, stdin: PipeWriter) -> None:
        try:
            either: set[asyncio.Future[Any]] = {child.exited, self._last_line}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if self._listener_error() is None:
                await asyncio.wait({child.exited}, timeout=EXIT_GRACE)
            if not child.exited.done():
                child.kill()
                await child.exited
            reader.read_rest()
            self._settle(child.reap())
        finally:
            child.kill()  # if the loop goes away while it runs
            child.close()
            reader.close()
            stdin.close()

    def _listener_error(self) -> BaseException | None:
        return self._last_line.exception() if self._last_line.done() else None

    def _read(self, data: bytes) -> None:
        try:
            self._take(data)
        except Exception as error:  # noqa: BLE001 - becomes the outcome of the call
            if not self._last_line.done():
                self._last_line.set_exception(error)

    def _take(self, data: bytes) -> None:
        first_new = len(self._unread)
        self._unread += data
        if b"\n" not in data:
            return
        end = self._unread.rindex(b"\n", first_new) + 1
        lines = bytes(self._unread[:end])
        del self._unread[:end]
        for line in lines.splitlines():
            self._hear(json.loads(line))

    def _hear(self, line: dict[str, Any]) -> None:
        match line["kind"]:
            case "say":
                self._on_say(line["text"])
            case "spend":
                self._on_spend(line["input_tokens"], line["output_tokens"], line["cost"])
            case "progress":
                self._on_progress(line["fraction"], line["text"])
            case _:
                self._last_line.set_result(line)

    def _settle(self, returncode: int) -> None:
        if self.future.done():
            return
        if (error := self._listener_error()) is not None:
            self.future.set_exception(error)
        elif self._last_line.done():
            self._settle_by(self._last_line.result())
        elif self._cut.is_set():
            self.future.set_exception(Cut(f"{self._title} was killed before it ended by itself"))
        else:
            self.future.set_exception(
                RemoteError("ProcessDied", f"the process of {self._title} ended with {_how(returncode)} and no result")
            )

    def _settle_by(self, line: dict[str, Any]) -> None:
        if line["kind"] == "result":
            self.future.set_result(line["json"].encode())
        else:
            self.future.set_exception(
                RemoteError(line["type"], line["message"], line["traceback"], not_performed=line["not_performed"])
            )


def _python_path() -> str:
    return os.pathsep.join(str(Path(entry).absolute()) for entry in sys.path)


def _how(returncode: int) -> str:
    if returncode >= 0:
        return f"exit code {returncode}"
    try:
        return signal.Signals(-returncode).name
    except ValueError:
        return f"signal {-returncode}"
