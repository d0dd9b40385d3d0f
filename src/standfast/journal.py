"""The calls of the current step, so that a repeated step does not repeat finished calls."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from pydantic import JsonValue

from standfast.errors import KeyReused
from standfast.records import Interruption
from standfast.rows import CallRow
from standfast.tools import Call


class Journal:
    """What earlier attempts at this step did, and what this attempt has asked for so far."""

    __slots__ = ("_explicit", "_prefix", "_seen", "asked", "left_open", "rows", "values")

    def __init__(self, run: str, epoch: int, step: int | str) -> None:
        self._prefix = f"{run}\0{epoch}\0{step}\0".encode()
        self._seen: dict[tuple[str, bytes], int] = {}
        self._explicit: dict[str, str] = {}
        self.asked: set[str] = set()
        self.left_open = False  # somebody has asked a person, and not waited for the answer
        self.rows: dict[str, CallRow] = {}
        self.values: dict[str, JsonValue] = {}

    def identify(self, call: Call[Any], key: str | None) -> str:
        """The call's key: run, epoch, step, tool, arguments, and which of equal ones it is."""
        tool = call.tool.name
        if key is None:
            same = (tool, call.raw)
            n = self._seen.get(same, 0)
            self._seen[same] = n + 1
            what = _what(call, n)
        else:
            known = self._explicit.get(f"{tool}\0{key}")
            if known is not None:
                again = known == call.digest
                raise KeyReused(
                    f"key {key!r} was used {'twice in this step' if again else 'for another call of this step'}",
                    hint="one key, one call: leave key= out, or make it depend on what the call is for",
                )
            self._explicit[f"{tool}\0{key}"] = call.digest
            what = f"{tool}\0key\0{key}".encode()
        id_ = self._id(call, what)
        old = self.rows.get(id_) if key is not None else None
        if old is not None and (old.wanted or old.args.decode()) != call.raw.decode():
            if old.status not in ("asking", "approved", "denied"):
                raise KeyReused(
                    f"key {key!r} was used by an earlier attempt at this step with other arguments",
                    hint="a key stands for one intent: give the changed call another key",
                )
            # What a person said about other arguments is void: the call was never performed, and asks again.
            old.status, old.error, old.wanted = "withdrawn", None, None
        self.asked.add(id_)
        return id_

    def next_row(self, call: Call[Any]) -> CallRow | None:
        """What earlier attempts left of this call, the next of equal ones; does not ask for it."""
        return self.rows.get(self._id(call, _what(call, self._seen.get((call.tool.name, call.raw), 0))))

    def pass_over(self, call: Call[Any]) -> None:
        """The next of equal calls is another one."""
        same = (call.tool.name, call.raw)
        self._seen[same] = self._seen.get(same, 0) + 1

    def _id(self, call: Call[Any], what: bytes) -> str:
        return f"{call.tool.name}-{sha256(self._prefix + what).hexdigest()[:24]}"

    def unasked_writes(self) -> list[CallRow]:
        """Effects of earlier attempts that this attempt has not asked for."""
        return [
            row
            for row in self.rows.values()
            if row.effect in ("write", "irreversible")
            and row.id not in self.asked
            and row.status in ("finished", "failed", "in_doubt", "started")
        ]

    def unasked_children(self) -> list[CallRow]:
        """Child runs of earlier attempts that this attempt has not asked for."""
        return [row for row in self.rows.values() if row.kind == "child" and row.id not in self.asked]

    def interruption(self, said: dict[str, tuple[int, str]]) -> Interruption | None:
        """What an earlier attempt left, for the step that is being repeated; text of the last one that left some."""
        over = {row.id for row in self.rows.values() if row.status == "finished"}
        partial = {call: attempt for call, (attempt, _) in said.items() if call not in over}
        last = max(partial.values(), default=0)
        text = "".join(said[call][1] for call, attempt in partial.items() if attempt == last)
        finished = tuple(r.ref for r in self.rows.values() if r.status == "finished")
        cut = tuple(r.ref for r in self.rows.values() if r.status in ("cut", "in_doubt", "failed", "not_begun"))
        return Interruption(text, finished, cut) if self.rows or text else None


def _what(call: Call[Any], n: int) -> bytes:
    """Tool, arguments, and which of equal calls it is."""
    return b"%b\0%b\0%d" % (call.tool.name.encode(), call.raw, n)
