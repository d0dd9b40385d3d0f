"""The watching side of `standfast run`: a thread of its own, so that a stop works whatever the agent's loop does."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from standfast.cli.answers_typed import choices_lines, typed_answer
from standfast.cli.codes import Code
from standfast.cli.options import say_json
from standfast.cli.pages import receipt_page
from standfast.cli.screens import screen_for
from standfast.cli.story import Story
from standfast.cli.words import ended, flying, short
from standfast.errors import Misuse, StandfastError
from standfast.events import Event, TextDelta, TextFlushed
from standfast.handle import Handle
from standfast.records import Need, RunView
from standfast.runtime import Runtime
from standfast.shapes import event_json, receipt_json, view_json

TICK = 0.2
LEAVE_SECONDS = 15.0  # a release waits 10 s for what drains
HURRY_SECONDS = 3.0  # after the second Ctrl-C


class Session:
    """One run, watched until it has ended, is held, or the person leaves."""

    def __init__(
        self,
        runs: Runtime,
        handle: Handle[Any],
        *,
        by: str,
        names: Sequence[str],
        store: Path,
        as_json: bool,
        stays: bool,
    ) -> None:
        self._runs = runs
        self._handle = handle
        self._by = by
        self._command = f"standfast run --resume {handle.id} {' '.join(names)}" + (
            "" if store == Path("runs.db") else f" --store {store}"
        )
        self._options = "" if store == Path("runs.db") else f" --store {store}"
        self._as_json = as_json
        self._stays = stays
        self._screen = screen_for(sys.stdout)
        self._story = Story(self._screen)
        self._interrupts = 0
        self._pausing: asyncio.Task[None] | None = None
        self._answering: asyncio.Task[None] | None = None
        self._asked: set[str] = set()  # needs that were put before the person
        self._open: Need | None = None
        self._gone = threading.Event()
        self._leave_seconds = LEAVE_SECONDS
        self.code = int(Code.OK)

    # --- in the agent's loop ------------------------------------------------------------------------

    async def watched(self) -> None:
        """Until there is nothing more to watch; the agent's loop goes on meanwhile."""
        loop = asyncio.get_running_loop()
        over = asyncio.Event()

        def in_thread() -> None:
            try:
                asyncio.run(self._watch())
            finally:
                loop.call_soon_threadsafe(over.set)
                if not self._gone.wait(self._leave_seconds):
                    os._exit(self.code)  # the agent's code does not let go: the run is safe without it

        with _ctrl_c() as pressed:
            self._pressed = pressed
            threading.Thread(target=in_thread, name="standfast-watch", daemon=True).start()
            await over.wait()

    def left(self) -> None:
        """This process drives no more."""
        self._gone.set()

    # --- in the thread --------------------------------------------------------------------------------

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        done = asyncio.Event()
        loop.add_reader(self._pressed, self._ctrl_c_pressed, done)
        reads = self._stays and sys.stdin.isatty()
        if reads:
            loop.add_reader(sys.stdin.fileno(), self._typed)
        telling = asyncio.create_task(self._tell_events())
        standing = asyncio.create_task(self._stand(done))
        try:
            if not self._as_json:
                view = await self._handle.view()
                self._screen.line(f"{view.id}  {view.agent}")
            await done.wait()
            if self.code in (Code.OK, Code.CANCELLED, Code.FAILED):
                await asyncio.wait([telling], timeout=5)  # the last events are told before the end is
        except StandfastError as error:
            self.code = int(Code.ERROR)
            self._screen.line(str(error), "red")
        finally:
            for task in (telling, standing):
                task.cancel()
            await asyncio.gather(telling, standing, return_exceptions=True)
            loop.remove_reader(self._pressed)
            if reads:
                loop.remove_reader(sys.stdin.fileno())
            await self._last_words()

    async def _tell_events(self) -> None:
        stream = cast("AsyncGenerator[Event | TextDelta, None]", self._handle.events())
        try:
            async for event in stream:
                if self._as_json:
                    say_json(event_json(event))
                    continue
                if not isinstance(event, TextDelta | TextFlushed):
                    self._story.stands(await self._handle.view())  # the plan moves before its calls are told
                self._story.tell(event)
        finally:
            await stream.aclose()

    async def _stand(self, done: asyncio.Event) -> None:
        """Look at the run again and again: what its plan is, whether it is held, whether it is over."""
        while True:
            view = await self._handle.view()
            if not self._as_json:
                self._story.stands(view)
            if ended(view.status):
                self.code = int({"done": Code.OK, "cancelled": Code.CANCELLED}.get(view.status, Code.FAILED))
                done.set()
                return
            if view.status == "paused" and self._interrupts:
                self.code = int(Code.INTERRUPTED)
                done.set()
                return
            if view.status == "paused":
                self._held(view, done)
            await asyncio.sleep(TICK)

    def _held(self, view: RunView, done: asyncio.Event) -> None:
        """It will not go on by itself: put it before the person, or leave."""
        if not self._stays:
            self.code = int(Code.HELD)
            done.set()
            return
        self._open = view.needs[0] if view.needs else None
        for need in view.needs:
            if need.id not in self._asked and not self._as_json:
                self._asked.add(need.id)
                for line in choices_lines(need):
                    self._screen.line(line, "yellow")
        if not view.needs:
            self._story.hint = f"held: standfast resume {view.id}{self._options} goes on; Ctrl-C leaves it so"

    # --- the person -----------------------------------------------------------------------------------

    def _ctrl_c_pressed(self, done: asyncio.Event) -> None:
        self._interrupts += self._pressed.recv(100).count(bytes([signal.SIGINT]))
        loop = asyncio.get_running_loop()
        if self._interrupts and self._pausing is None:
            self._story.hint = "pausing; Ctrl-C again leaves at once, and the run stays paused"
            self._pausing = loop.create_task(self._pause())
        if self._interrupts >= 2 and self._pausing is not None:
            self.code = int(Code.INTERRUPTED)
            self._leave_seconds = HURRY_SECONDS
            self._pausing.add_done_callback(lambda _: done.set())  # never before the pause is durable

    async def _pause(self) -> None:
        try:
            answer = await self._handle.pause(by=self._by, reason="Ctrl-C", trigger="key")
        except StandfastError as error:
            self._screen.line(f"the pause was not accepted: {error}", "red")
            self._interrupts, self._pausing = 0, None
            return
        flight: Any = getattr(answer, "in_flight", ())
        if answer and flight and not self._as_json:
            self._screen.line(f"pausing; in flight: {flying(flight)}. Ctrl-C again leaves at once.", "yellow")

    def _typed(self) -> None:
        line = sys.stdin.readline()
        if not line:
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
            return
        self._screen.typed()
        if self._open is not None:
            self._answering = asyncio.get_running_loop().create_task(self._answer(self._open, line.strip()))

    async def _answer(self, need: Need, typed: str) -> None:
        try:
            answer = await typed_answer(self._handle, need, typed, by=self._by)
        except Misuse as error:
            self._screen.line(f"  {error}", "red")
            return
        if answer:
            self._open = None
        else:
            self._screen.line(f"  {short(str(answer))}", "red")

    # --- the end --------------------------------------------------------------------------------------

    async def _last_words(self) -> None:
        view = await self._handle.view()
        receipt = None if view.status == "done" else await self._receipt(view)
        if self._as_json:
            say_json(
                {"run": view_json(view), "result": await self._result(view)}
                | ({} if receipt is None else {"receipt": receipt_json(receipt)})
            )
            return
        if self._screen.live:
            self._story.stands(view)
            self._screen.bottom([])
        match view.status:
            case "done":
                self._screen.line(f"✔ done: {short(await self._result(view), 400)}", "blue")
            case "cancelled" | "failed":
                for line in receipt_page(receipt) if receipt is not None else [f"▲ {view.error}"]:
                    self._screen.line(line)
            case _:
                self._leaving(view)

    def _leaving(self, view: RunView) -> None:
        if view.status == "paused":
            self._screen.line(
                f"‖ {view.id} is paused ({', '.join(view.holds).replace('_', ' ')}); nothing is lost", "yellow"
            )
        else:
            waits = f", waiting for {view.waiting_for}" if view.waiting_for else ""
            self._screen.line(f"◐ {view.id} is {view.status}{waits}; no further call begins", "yellow")
        for need in view.needs:
            self._screen.line(f"  needs you: {need.kind}: {need.words}")
        self._screen.line(f"  go on:      {self._command}")
        self._screen.line(f"  end it:     standfast cancel {view.id}{self._options}")
        self._screen.line(f"  look at it: standfast show {view.id}{self._options}")

    async def _receipt(self, view: RunView) -> Any:
        return await self._handle.settled(timeout=5) if ended(view.status) else None

    async def _result(self, view: RunView) -> Any:
        if view.status != "done":
            return None
        row: Any = self._runs.read(lambda tx: tx.run(view.id))
        return row.doc.result


def _nothing(signal: int, frame: Any, /) -> None:
    """The byte in the socket says it all."""


@contextmanager
def _ctrl_c() -> Generator[socket.socket, None, None]:
    """A socket that a byte comes out of for every Ctrl-C, also while Python code of this thread never returns."""
    ours, signals = socket.socketpair()
    ours.setblocking(False)
    signals.setblocking(False)
    old = signal.signal(signal.SIGINT, _nothing)
    old_fd = signal.set_wakeup_fd(signals.fileno(), warn_on_full_buffer=False)
    try:
        yield ours
    finally:
        signal.set_wakeup_fd(old_fd)
        signal.signal(signal.SIGINT, old)
        ours.close()
        signals.close()
