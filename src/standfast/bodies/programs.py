"""Programs run inside a tool: their output streams live, and a stop takes the whole tree."""

from __future__ import annotations

import asyncio
import codecs
import os
import subprocess
from collections.abc import Callable, Mapping
from contextlib import ExitStack

from standfast.bodies.children import Child
from standfast.bodies.guard import guard
from standfast.bodies.marks import marked
from standfast.bodies.pipes import PipeReader, PipeWriter
from standfast.context import current_call
from standfast.errors import Misuse
from standfast.records import Completed

PIPE_GRACE = 0.2  # how long output is awaited after the program's exit, when others hold its pipes
KILL_WAIT = 1.0  # how long a killed program may take to vanish before it is left to the system
KEPT = 8 * 1024 * 1024


async def run_process(
    *argv: str,
    stdin: str | bytes | None = None,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
) -> Completed:
    """Run a program to its end; a cancel or `timeout` (TimeoutError) kills it and everything it has started.

    Its output goes to `say()` as it comes and is returned, of each stream at most 8 MiB (head and
    tail). Without `stdin` it reads nothing. What it leaves running is killed when its call is cut,
    when the process dies before the call has ended, and when the run is cancelled.
    """
    if not argv:
        raise Misuse("run_process() was given no program", hint='name it: await run_process("git", "status")')
    call = current_call.get()
    in_process_tool = call is not None and call.in_process_tool
    mark = call.begin_program() if call is not None else ""
    with ExitStack() as cleanup:
        child = Child(
            argv,
            # in a process tool it stays in the tool's group: what kills the tool kills it too
            new_session=not in_process_tool,
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=marked(env, mark),
        )
        cleanup.callback(child.release)
        if mark:
            guard.group(mark, child.pid)
            cleanup.callback(guard.ungroup, mark, child.pid)
        say = call.say if call is not None else _nobody_listens
        stdout, stderr = _Output(say), _Output(say)
        readers: list[PipeReader] = []
        try:
            for pipe, output in ((child.process.stdout, stdout), (child.process.stderr, stderr)):
                assert pipe is not None
                readers.append(PipeReader(pipe, output.add))
                cleanup.callback(readers[-1].close)
            if stdin is not None and child.process.stdin is not None:
                data = stdin.encode() if isinstance(stdin, str) else stdin
                cleanup.callback(PipeWriter(child.process.stdin, data, then_close=True).close)
            await _end_in_time(child, readers, timeout, argv[0])
            await _end_of_output(readers)
        except GeneratorExit:  # thrown away by a loop that is gone: nothing can be awaited
            child.kill()
            raise
        except BaseException:
            child.kill()
            await asyncio.wait({child.exited}, timeout=KILL_WAIT)
            if child.exited.done():
                child.reap()
            _read_rest(readers)
            raise
        _read_rest(readers)
        # reaped last: until now the pid was the program's own, so a kill could not meet a stranger
        return Completed(child.reap(), stdout.text(), stderr.text())


async def _end_in_time(child: Child, readers: list[PipeReader], timeout: float | None, program: str) -> None:
    limit = asyncio.timeout(timeout)
    try:
        async with limit:
            await _end_of(child, readers)
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise TimeoutError(f"{program} did not end within {timeout:g} s, and was killed") from error


async def _end_of(child: Child, readers: list[PipeReader]) -> None:
    """Wait for the exit; an error in handing on output ends the wait."""
    waiting: set[asyncio.Future[None]] = {child.exited, *(reader.ended for reader in readers)}
    while not child.exited.done():
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for each in done:
            each.result()


async def _end_of_output(readers: list[PipeReader]) -> None:
    done, _ = await asyncio.wait({reader.ended for reader in readers}, timeout=PIPE_GRACE)
    for each in done:
        each.result()


def _read_rest(readers: list[PipeReader]) -> None:
    for reader in readers:
        reader.read_rest()


def _nobody_listens(text: str) -> None:
    """A program run outside a call has nobody to show its output to."""


class _Output:
    """What a stream said: told at once, and kept up to a cap with its head and its tail."""

    def __init__(self, say: Callable[[str], None], *, kept: int = KEPT) -> None:
        self._say = say
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._half = kept // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._left_out = 0

    def add(self, data: bytes) -> None:
        room = self._half - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        self._trim()
        if text := self._decoder.decode(data):
            self._say(text)

    def _trim(self) -> None:
        surplus = len(self._tail) - self._half
        if surplus > 0:
            del self._tail[:surplus]
            self._left_out += surplus

    def text(self) -> str:
        if not self._left_out:
            return (self._head + self._tail).decode(errors="replace")
        # a character cut in two at the gap is left out too
        head = codecs.getincrementaldecoder("utf-8")(errors="replace").decode(self._head, final=False)
        start = next((at for at in range(min(3, len(self._tail))) if self._tail[at] & 0xC0 != 0x80), 3)
        tail = self._tail[start:].decode(errors="replace")
        return f"{head}\n[standfast: {self._left_out} bytes left out]\n{tail}"
