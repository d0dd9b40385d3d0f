"""What the show prints: coloured and redrawn in place on a terminal, plain lines anywhere else."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable

from standfast import CallRef, Receipt, RunView
from standfast.names import name_words

WIDTH = 84

# No two states look alike: word, shape and colour.
STATES = {
    "queued": ("○", "37"),
    "running": ("▶", "32"),
    "pausing": ("◐", "33"),
    "paused": ("‖", "93"),
    "cancelling": ("◍", "35"),
    "cancelled": ("■", "31"),
    "done": ("✔", "92"),
    "failed": ("✖", "91"),
    "dropped": ("-", "90"),
}


class Screen:
    """Prints the show; `show` keeps one panel up to date."""

    def __init__(self) -> None:
        self.live = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
        self._colours = self.live and not os.environ.get("NO_COLOR")
        self._drawn = 0  # lines of the panel that is being kept up to date
        self._last: object = None

    def _paint(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._colours else text

    def line(self, text: str = "", code: str = "") -> None:
        """One line below everything else."""
        self._freeze()
        print(self._paint(text, code) if code else text, flush=True)

    def title(self, text: str) -> None:
        """The name of the show."""
        self.line()
        self.line(text, "1")

    def scene(self, number: int, text: str) -> None:
        """A new scene."""
        self.line()
        head = f"── {number}  {text} "
        self.line(head + "─" * max(0, WIDTH - len(head)), "1;36")

    def tells(self, text: str) -> None:
        """What is going on, for people."""
        self.line(f"   {text}", "90")

    def asks(self, verb: str) -> None:
        """A verb, as it is sent."""
        self._freeze()
        print("   " + self._paint("you » ", "1;34") + self._paint(verb, "1"), flush=True)

    def answers(self, text: str) -> None:
        """What came back."""
        self._freeze()
        print("       " + self._paint("« ", "34") + text, flush=True)

    def claim(self, text: str) -> None:
        """Something that has been checked."""
        self._freeze()
        print("   " + self._paint("✔ checked: ", "32") + text, flush=True)

    # --- the panel --------------------------------------------------------------------------------

    def show(self, view: RunView, said: str = "") -> None:
        """The run now. On a terminal the panel is redrawn; elsewhere a line is added when something has changed."""
        if not self.live:
            self._show_plain(view)
            return
        lines = self._panel(view, said)
        up = f"\x1b[{self._drawn}A" if self._drawn else ""
        sys.stdout.write(up + "".join(f"\x1b[2K{line}\n" for line in lines))
        sys.stdout.flush()
        self._drawn = len(lines)

    def _freeze(self) -> None:
        self._drawn = 0

    def _show_plain(self, view: RunView) -> None:
        doing = next((item.title for item in view.plan if item.status == "running"), "")
        why = without_seconds(what_it_does(view))
        known = (view.status, view.step, why, doing)
        if known != self._last:
            self._last = known
            shape = STATES[view.status][0]
            done = sum(item.status == "done" for item in view.plan)
            at = f"{min(done + 1, len(view.plan))}/{len(view.plan)}"
            text = f"   {view.elapsed:5.1f} s  {shape} {view.status:10} stage {at}  {doing}"
            print(f"{text}{f'  ({why})' if why else ''}", flush=True)

    def _panel(self, view: RunView, said: str) -> list[str]:
        room = min(shutil.get_terminal_size().columns, 120) - 8  # a wrapped line would break the redrawing
        shape, colour = STATES[view.status]
        badge = f"{shape} {view.status}".ljust(14)
        facts = f"{view.elapsed:5.1f} s   step {view.step}   {view.spent.calls} calls   "
        doing = clip(what_it_does(view), room - len(badge) - len(facts))
        lines = [self._paint(badge, f"1;{colour}") + self._paint(facts, "90") + self._paint(doing, colour)]
        for item in view.plan:
            held = item.status == "running" and view.status != "running"
            mark, tint = STATES[view.status if held else item.status]  # a stage of a held run is held
            weight = {"running": "1", "done": "90"}.get(item.status, "0")
            lines.append(f"  {self._paint(mark, tint)} {self._paint(clip(item.title, room - 4), weight)}")
        lines.append(self._paint(f"    “{said[-(room - 8) :]}▏", "3;90") if said else "")
        return [f"   ┃ {line}" for line in lines]

    # --- the receipt --------------------------------------------------------------------------------

    def receipt(self, receipt: Receipt) -> None:
        """What the stop did, in words."""
        self._freeze()
        rows = list(receipt_rows(receipt))
        left = max(len(name) for name, _ in rows)
        inner = max(max(len(text) for _, text in rows) + left + 5, 50)
        print("   ╭─ receipt " + "─" * (inner - 9) + "╮")
        for name, text in rows:
            pad = " " * (inner - left - len(text) - 4)
            print(f"   │  {self._paint(name.rjust(left), '90')}  {text}{pad} │")
        print("   ╰" + "─" * inner + "─╯", flush=True)


def receipt_rows(receipt: Receipt) -> Iterable[tuple[str, str]]:
    """A receipt as rows of a name and a text."""
    yield "run", f"{receipt.run} is {receipt.status}"
    yield "asked by", f"{name_words(receipt.by, receipt.by_token)}: {receipt.reason}"
    accepted, settled = receipt.accepted_at - receipt.asked_at, receipt.settled_at - receipt.accepted_at
    yield "took", f"{accepted * 1000:.0f} ms until nothing new could start, {settled * 1000:.0f} ms more to settle"
    yield "finished", f"{receipt.finished_steps} steps, {receipt.usage.calls} calls"
    for flight in receipt.in_flight:
        yield "in flight", f"{named(flight.call)}: {flight.outcome.replace('_', ' ')}"
    for entry in receipt.undone:
        yield "undo", f"{named(entry.call)}: {entry.outcome.replace('_', ' ')}"
    for call in receipt.kept:
        yield "kept", named(call)
    for left in receipt.residue:
        yield "left behind", f"{left.what} {left.why}".strip()
    if not receipt.residue:
        yield "left behind", "nothing"
    yield "calls after cancel", f"{receipt.calls_after_cancel} (counted, not assumed)"


def named(call: CallRef) -> str:
    """A call, so that people know which one is meant."""
    return f"{call.tool} ({call.title})" if call.title else call.tool


def what_it_does(view: RunView) -> str:
    """Why it is where it is, in words."""
    if not view.waiting_for:
        return ""
    if view.status == "running":
        return f"in {view.waiting_for}"
    return f"held: {view.waiting_for}" if view.status == "paused" else f"waits for {view.waiting_for}"


def without_seconds(text: str) -> str:
    """'create_draft 3 s' without its time, which changes all the while."""
    words = text.split(" ")
    return " ".join(words[:-2]) if len(words) > 2 and words[-1] == "s" else text


def clip(text: str, width: int) -> str:
    """The text, cut where a line of the terminal ends."""
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"
