"""A call with everything that is known of it, as a text to read."""

from __future__ import annotations

import json

from pydantic import JsonValue

from standfast.cli.pages import clock
from standfast.cli.screens import harmless
from standfast.json_values import is_object
from standfast.tui.model import RunModel


def call_text(model: RunModel, key: str) -> str:
    """What went in, what came out, when, how often, what it said."""
    call = model.calls[key]
    facts = [
        f"{call.tool} [{call.effect or 'not begun'}]  {call.status}",
        f"id: {call.id}",
        f"step {call.step}" + (f", began {clock(call.began)}" if call.began else ""),
    ]
    if call.seconds is not None:
        facts.append(f"took {call.seconds:.2f} s")
    if call.tries > 1:
        facts.append(f"issued {call.tries} times")
    usage = _usage(call.result)
    if usage:
        facts.append(usage)
    facts += [f"{name}: {value}" for name, value in (("undo", call.undo), ("why", call.why)) if value]
    if call.error:
        facts.append(f"error: {call.error}")
    facts.append(f"\narguments\n{_json(call.args)}")
    facts.append(f"\nresult\n{_json(call.result)}")
    said = "\n".join(speech.text for speech in model.speeches if speech.call == key)
    if said:
        facts.append(f"\nwhat it said\n{said}")
    return harmless("\n".join(facts))


def _json(value: JsonValue) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _usage(result: JsonValue) -> str:
    usage = result.get("usage") if is_object(result) else None
    if not is_object(usage):
        return ""
    tokens = sum(int(n) for n in (usage.get("input_tokens"), usage.get("output_tokens")) if isinstance(n, int | float))
    return f"tokens: {tokens}" + (" (estimated)" if usage.get("estimated") is True else "")
