"""A show in the terminal: a run is paused, killed with kill -9, redirected, resumed and cancelled.

The run is driven by a process of its own; this one only controls it, through the same SQLite
file. Exit code 0 means that everything the show claims was checked against a file outside.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from examples.show_letters import CUSTOMERS, Letters, letters
from examples.show_screen import Screen, without_seconds

from standfast import Accepted, Answer, Handle, Happened, Need, Runtime, RunView, TextDelta
from standfast.events import TextFlushed

ROOT = Path(__file__).resolve().parents[1]
PATIENCE = 60.0
NEW = "Write three short bullet points"


class UntrueError(Exception):
    """The show claimed something that is not so."""


class Show:
    """One run, the process that drives it, and the world it acts on."""

    def __init__(self, folder: Path, pace: float) -> None:
        self.folder = folder
        self.store = folder / "runs.db"
        self.world = folder / "world.jsonl"
        self.pace = pace
        self.screen = Screen()
        self.worker: subprocess.Popen[bytes] | None = None
        self.said = ""
        self.claims = 0
        self.world.touch()

    # --- the worker -------------------------------------------------------------------------------

    def start_worker(self) -> None:
        arguments = [str(self.store), str(self.world), str(self.pace)]
        command = [sys.executable, "-m", "examples.show_letters", *arguments]
        self.worker = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE)
        self.screen.tells(f"worker process {self.worker.pid} drives the run; this one only controls it")

    def kill_worker(self) -> None:
        assert self.worker is not None
        self.worker.kill()
        self.worker.wait()

    def stop_worker(self) -> None:
        """Let it release what it drives, and end."""
        if self.worker is not None and self.worker.poll() is None:
            assert self.worker.stdin is not None
            self.worker.stdin.close()
            try:
                self.worker.wait(timeout=15)
            except subprocess.TimeoutExpired:
                self.kill_worker()

    # --- looking ----------------------------------------------------------------------------------

    def effects(self) -> Counter[str]:
        """What has really been done, by the world's own account."""
        return Counter(json.loads(line)["did"] for line in self.world.read_text().splitlines())

    def check(self, claim: str, true: bool) -> None:
        """Say it only if it is so."""
        if not true:
            raise UntrueError(f"{claim}: the world says {dict(self.effects())}")
        self.claims += 1
        self.screen.claim(claim)

    async def watch(self, run: Handle[Letters], until: Callable[[RunView], bool]) -> RunView:
        """Show the run until it looks as wanted."""
        end = time.monotonic() + PATIENCE
        while True:
            view = await run.view()
            self.screen.show(view, self.said if view.status in ("running", "pausing") else "")
            if until(view):
                return view
            if time.monotonic() > end:
                raise UntrueError(
                    f"after {PATIENCE:.0f} s the run is still {view.status}: {view.waiting_for or view.error}"
                )
            await asyncio.sleep(0.08 if self.pace == 1 else 0.03)

    async def listen(self, run: Handle[Letters]) -> None:
        """Keep what the agent says, as it comes."""
        async for event in run.events():
            if isinstance(event, TextDelta | TextFlushed):
                self.said = self.said[: event.offset] + event.text

    async def breathe(self, seconds: float = 1.0) -> None:
        await asyncio.sleep(seconds * self.pace)

    # --- the scenes -------------------------------------------------------------------------------

    async def play(self) -> None:
        self.screen.title("standfast: a run that you can pause, redirect and cancel, and that a crash does not end")
        self.screen.tells(f"store {self.store}")
        self.screen.tells(f"world {self.world}")
        async with Runtime(self.store, drive=False) as runs:
            self.screen.scene(1, "Start")
            self.start_worker()
            self.screen.asks('start(letters, Letters(month="May"))')
            run = await runs.start(letters, Letters(month="May"), by="ann")
            listening = asyncio.create_task(self.listen(run))
            try:
                await self.pause(run)
                await self.survive(run)
                await self.redirect(run)
                await self.cancel(run)
            finally:
                listening.cancel()

    async def pause(self, run: Handle[Letters]) -> None:
        await self.watch(run, in_flight("create_draft"))
        await self.breathe(0.5)
        self.screen.scene(2, "Pause, while a write is in flight")
        self.screen.asks('pause(reason="let me read the draft")')
        answer = accepted(await run.pause(by="ann", reason="let me read the draft"))
        flying = ", ".join(f"{call.tool} ({call.effect})" for call in answer.in_flight)
        self.screen.answers(f"Accepted: nothing new starts. In flight: {flying}")
        self.screen.tells("a write is allowed to finish, and the run says what it waits for:")
        view = await run.view()
        self.check(
            "it is pausing, and waits for create_draft",
            (view.status, without_seconds(view.waiting_for)) == ("pausing", "create_draft"),
        )
        await self.watch(run, is_("paused"))
        self.check("the draft was made, once, and nothing after it", self.effects() == Counter({"create draft": 1}))
        await self.breathe()

    async def survive(self, run: Handle[Letters]) -> None:
        self.screen.scene(3, "Resume, and kill -9 the worker in the middle of the next write")
        self.screen.asks("resume()")
        accepted(await run.resume(by="ann"))
        await self.watch(run, lambda view: in_flight("tell_team")(view) and self.effects()["tell team"] > 0)
        await self.breathe(0.7)
        assert self.worker is not None
        self.screen.line(f"   kill -9 {self.worker.pid}", "1;31")
        self.kill_worker()
        await self.breathe()
        self.screen.tells("nobody can know from inside whether the team was told. Another worker takes over:")
        self.start_worker()
        view = await self.watch(run, lambda view: [need.kind for need in view.needs] == ["doubt"])
        need = view.needs[0]
        await self.breathe(0.5)
        self.screen.line(f"   ? {need.text}", "1;33")
        choices = ", ".join(type(choice).__name__ for choice in need.choices)
        self.screen.tells(f"choices: {choices}; never a blind retry, never a silent skip")
        await self.breathe(1.5)
        await self.resolve(run, need)

    async def resolve(self, run: Handle[Letters], need: Need) -> None:
        assert need.call is not None
        self.check("the world file says: the team was told", self.effects()["tell team"] == 1)
        self.screen.asks('resolve(call, Happened("message 17"))')
        accepted(await run.resolve(need.call, Happened("message 17"), by="ann", reason="seen in the channel"))
        await self.watch(run, in_flight("write_letter"))
        self.check("the run went on in the new worker; nobody was told twice", self.effects()["tell team"] == 1)

    async def redirect(self, run: Handle[Letters]) -> None:
        view = await self.watch(run, lambda _: len(self.said) > 40)
        self.screen.scene(4, "Pause, redirect, resume")
        self.screen.asks('pause(reason="too stiff")')
        accepted(await run.pause(by="ann", reason="too stiff"))
        view = await self.watch(run, is_("paused"))
        receipt = await run.settled()
        self.screen.answers(f"the stream was closed; kept: “{receipt.partial_output.strip()}”")
        self.check("the partial text is kept", receipt.partial_output.startswith("Dear valued customer"))
        self.screen.asks(f'redirect("{NEW}")')
        accepted(await run.redirect(NEW, by="ann"))
        view = await run.view()
        self.check("the redirect is pending until the agent has read it", view.mail[-1].status == "pending")
        await self.breathe()
        self.said = ""
        self.screen.asks("resume()")
        accepted(await run.resume(by="ann"))
        self.screen.answers(f"what you changed: {(await run.view()).changed}")
        view = await self.watch(run, in_flight("book_slot"))
        self.check(f"read by step {view.mail[-1].step}", view.mail[-1].status == "consumed")
        self.check(
            "that stage was rewritten, and no other",
            [item.title for item in view.plan][2:] == ["Tell the team", NEW, "Book a slot for each letter"],
        )
        letter = (await run.state())["letter"]
        self.check(f"the letter is now “{letter}”", letter.startswith("* We miss you"))

    async def cancel(self, run: Handle[Letters]) -> None:
        await self.watch(run, lambda _: self.effects()["book slot"] >= 3)
        await self.breathe(0.3)
        self.screen.scene(5, "Cancel, in the middle of a step")
        self.screen.asks('cancel(reason="we call them instead")')
        answer = accepted(await run.cancel(by="ann", reason="we call them instead"))
        self.screen.answers(f"Accepted. In flight: {', '.join(call.tool for call in answer.in_flight)}")
        await self.watch(run, is_("cancelled"))
        receipt = await run.settled()
        await self.breathe()
        self.screen.line()
        self.screen.receipt(receipt)
        self.screen.line()
        did = self.effects()
        self.check(
            f"{did['book slot']} slots were booked and {did['free slot']} freed; the draft was discarded",
            did["book slot"] == did["free slot"] == 3 and did["discard draft"] == 1,
        )
        self.check(
            "the other letters were never begun", did["book slot"] < len(CUSTOMERS) and receipt.calls_after_cancel == 0
        )
        self.check(
            "what the team was told is kept, and the receipt says so",
            [call.tool for call in receipt.kept] == ["tell_team"],
        )
        too_late = await run.redirect("one more thing", by="ann")
        self.screen.asks('redirect("one more thing")')
        self.screen.answers(f"{too_late}: losing a race is a value, not an exception")
        self.check("a cancelled run stays cancelled", not too_late)


def accepted(answer: Answer) -> Accepted:
    """The answer, if the verb holds."""
    if not isinstance(answer, Accepted):
        raise UntrueError(f"a verb was not accepted: {answer}")
    return answer


def is_(status: str) -> Callable[[RunView], bool]:
    return lambda view: view.status == status


def in_flight(tool: str) -> Callable[[RunView], bool]:
    return lambda view: any(call.tool == tool for call in view.in_flight)


def main() -> int:
    parser = argparse.ArgumentParser(prog="examples.show", description=__doc__)
    parser.add_argument("--fast", action="store_true", help="as quick as it goes, for tests")
    parser.add_argument("--folder", type=Path, help="where the store and the world are kept (default: a new folder)")
    given = parser.parse_args()
    show = Show(given.folder or Path(tempfile.mkdtemp(prefix="standfast-demo-")), 0.1 if given.fast else 1.0)
    try:
        asyncio.run(show.play())
    except UntrueError as untrue:
        show.screen.line(f"   ✖ not so: {untrue}", "1;31")
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        show.stop_worker()
    show.screen.line()
    show.screen.line(f"   {show.claims} claims, each checked. The run is still in {show.store}", "1;32")
    return 0


if __name__ == "__main__":
    sys.exit(main())
