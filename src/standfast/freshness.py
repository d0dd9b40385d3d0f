"""Is the world still what the run saw? (R16)

A fact is a read call and what it answered. It is asked again when a run is taken up
after a pause, a crash or a deploy; a difference holds the run as stale.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic import JsonValue
from pydantic_core import from_json, to_json

from standfast.codec import one_line_diff
from standfast.contained import text_of
from standfast.context import current_call
from standfast.differing import line_difference, schema_difference
from standfast.flight import Flight
from standfast.records import CallRef, Json
from standfast.rows import Fact, RunDoc
from standfast.tools import Call, Tool, unperformed

if TYPE_CHECKING:
    from standfast.agents import Agent
    from standfast.session import Session


@dataclass(frozen=True, slots=True)
class Unread:
    """A reading that failed: different from every reading."""

    why: str


class Freshness:
    """The facts one run relies on."""

    def __init__(self, session: Session) -> None:
        self._s = session
        self._noted: dict[str, Fact] = {}  # by this driver; the row may not have them yet

    @property
    def facts(self) -> dict[str, Fact]:
        return {**self._s.row.doc.facts, **self._noted}

    def rely(self, name: str, call: Call[Any], result: bytes, step: int) -> None:
        """Keep a reading, to be compared when the run is taken up again."""
        self._note({name: Fact(call.tool.name, from_json(call.raw), from_json(result), step)})

    def _note(self, facts: dict[str, Fact]) -> None:
        def change(doc: RunDoc) -> None:
            doc.facts = {**doc.facts, **facts}

        self._noted.update(facts)
        self._s.change(change)

    async def stale(self) -> list[tuple[str, int]]:
        """How the world differs from what the run saw, in words, each with the step that saw it."""
        return await self.differences(self.facts)

    async def differences(self, facts: dict[str, Fact]) -> list[tuple[str, int]]:
        """The same for these facts."""
        now = await self._read(facts)
        changed = {name: fact for name, fact in facts.items() if now[name] != fact.result}
        redactor = self._s.env.redactor
        clean: Callable[[Any], Any] = (lambda value: value) if redactor is None else redactor.values
        return [(f"{name}: {_difference(f.result, now[name], clean)}", f.step) for name, f in changed.items()]

    async def holding(self) -> list[str]:
        """Which facts still hold, so that the run's own write is not taken for a stranger's."""
        facts = self.facts
        now = await self._read(facts) if facts else {}
        return [name for name, fact in facts.items() if now[name] == fact.result]

    async def refresh(self, names: Iterable[str] | None = None) -> None:
        """Take these facts (default: all) as they are now."""
        facts = self.facts
        wanted = facts if names is None else {name: facts[name] for name in names if name in facts}
        if wanted:
            now = await self._read(wanted)
            read = {name: value for name, value in now.items() if not isinstance(value, Unread)}
            self._note({name: replace(wanted[name], result=value) for name, value in read.items()})

    async def _read(self, facts: dict[str, Fact]) -> dict[str, JsonValue | Unread]:
        """What each of these says now, all asked at once."""
        found = await asyncio.gather(*(self._read_one(name, fact) for name, fact in facts.items()))
        return dict(zip(facts, found, strict=True))

    async def _read_one(self, name: str, fact: Fact) -> JsonValue | Unread:
        tool = self._s.agent.tool(fact.tool) if fact.tool != FILE_CONTENT.name else FILE_CONTENT
        if tool is None:
            return Unread(f"no tool {fact.tool} here")
        unperformed.set(None)  # this call is no part of a step; gather gave this reading a context of its own
        seconds = tool.timeout or tool.grace
        reading: Flight | None = None
        try:
            call = tool.parse(to_json(fact.args))
            reading = Flight(self._s, f"fact-{name}", call, CallRef(f"fact-{name}", tool.name), 0, None, beside=True)
            current_call.set(reading)
            value = await asyncio.wait_for(self._s.perform_plainly(tool, call.args), seconds)
            return cast("JsonValue", from_json(tool.dump_result(value)))
        except TimeoutError:
            return Unread(f"no answer within {seconds} s")
        except Exception as error:  # noqa: BLE001 - a reading that fails is a difference, and is shown as one
            return Unread(f"{type(error).__name__}: {text_of(error)}")
        finally:
            if reading is not None:
                reading.ended = True  # its code may send no further request
                reading.cut_tied()
                reading.let_go_of_programs(cut=True)


def contract_differences(old: Json, agent: Agent[Any, Any], stages: str = "") -> list[str]:
    """What has changed in the agent's code that a paused run relies on; `stages` is how its plan has, in words."""
    new = agent.contract
    found: list[str] = []
    if old.get("state") != new["state"]:
        found.append(_said("state schema has changed", schema_difference(old.get("state"), new["state"])))
    if old.get("version") != new["version"]:
        return [f"version: {old.get('version')!r} -> {new['version']!r}", *found, *filter(None, [stages])]
    if new["version"] is not None:
        return found
    old_tools, new_tools = _tools(old), _tools(new)
    for name, tool in old_tools.items():
        now = new_tools.get(name)
        if now is None:
            found.append(f"tool {name} is gone")
        elif now != tool:
            found.append(f"tool {name}: {_tool_difference(tool, now)}")
    if stages:
        found.append(stages)
    if old.get("instructions") != new.get("instructions"):
        before, after = (cast("list[str]", one.get("instruction_lines") or []) for one in (old, new))
        found.append(_said("the instructions have changed", line_difference(before, after) if before else ""))
    return found


def _tool_difference(old: Json, new: Json) -> str:
    parts: list[str] = []
    if old.get("effect") != new.get("effect"):
        parts.append(f"effect changed: {old.get('effect')} -> {new.get('effect')}")
    for part in ("schema", "result_schema"):
        if old.get(part) != new.get(part):
            words = f"{part.replace('_', ' ')} changed"
            parts.append(_said(words, schema_difference(old.get(part), new.get(part))))
    return "; ".join(parts) or "changed"


def _said(what: str, how: str) -> str:
    return f"{what}: {how}" if how else what


def state_may_differ(old: Json, agent: Agent[Any, Any]) -> bool:
    """Is there something to migrate? A state of the same schema and version is what it was."""
    return any(old.get(part) != agent.contract[part] for part in ("state", "version"))


def _tools(contract: Json) -> dict[str, Json]:
    return cast("dict[str, Json]", contract.get("tools") or {})


def _difference(old: JsonValue, new: JsonValue | Unread, clean: Callable[[Any], Any]) -> str:
    if isinstance(new, Unread):
        return f"cannot be read: {clean(new.why)}"
    old, new = clean(old), clean(new)
    return one_line_diff(old, new) or f"{old!r} -> {new!r}"


async def _file_content(path: str) -> str | None:
    """The SHA-256 of a file, or None if there is none."""
    return await asyncio.to_thread(_digest, Path(path))


def _digest(file: Path) -> str | None:
    return sha256(file.read_bytes()).hexdigest() if file.is_file() else None


FILE_CONTENT: Tool[..., str | None] = Tool(_file_content, effect="read", name="file_content")


def file_content(path: str) -> Call[str | None]:
    """A fact ready made: what is in a file, as a hash."""
    return FILE_CONTENT(str(path))
