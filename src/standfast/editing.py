"""Edits of a paused run's state: a JSON Merge Patch, validated with the code or with the stored schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from standfast.agents import Agent
from standfast.codec import JsonSchema, expand_logs, from_json, merge_patch, one_line_diff, storable, to_json
from standfast.errors import NotStorable, WrongState
from standfast.json_values import is_object
from standfast.log_places import LogRows, collapse_logs
from standfast.outside import Outside
from standfast.records import Json
from standfast.snapshots import unpack, with_state

Fetch = Callable[[str, int, int], list[bytes]]


def edited(
    patch: Json,
    agent: Agent[Any, Any] | None,
    fetch: Fetch,
    contract: Json,
    snapshot: bytes,
    baseline: bytes,
    checks: Outside,
) -> tuple[bytes, str, list[LogRows]]:
    """The snapshot after the edit, what it changes in one line, and log rows to be written."""
    _, raw = unpack(snapshot)
    stored = from_json(raw)
    old = expand_logs(stored, fetch)
    patch = _plain(patch)
    new = merge_patch(old, patch)
    if not is_object(new):
        raise _no_edit("")
    if agent is not None:
        lost = _dropped(patch, checks.found(lambda: _validated(agent, new), to_json(new)))
    else:
        schema: Any = contract["state"]
        JsonSchema.fits(checks, schema, new)
        known = schema.get("properties", {})
        lost = (
            ""
            if schema.get("additionalProperties")
            else next((k for k, v in patch.items() if k not in known and v is not None), "")
        )
    if lost:
        raise WrongState(
            f"the state has no field {lost}", hint="nothing was changed; state() shows the fields there are"
        )
    state, rows = collapse_logs(stored, new, fetch)
    before = expand_logs(from_json(unpack(baseline)[1]), fetch)
    return with_state(snapshot, to_json(state)), one_line_diff(before, new), rows


def _plain(patch: Any) -> Any:
    try:
        return from_json(storable(patch))
    except NotStorable as error:
        raise _no_edit(f": {error.message}") from error


def _no_edit(why: str) -> WrongState:
    return WrongState(f"an edit is an object of fields, in JSON{why}", hint='for example edit({"month": "June"})')


def _dropped(patch: Any, read: Any, path: str = "") -> str:
    """The field of a patch that its state does not take: a slip of the pen, which would change nothing."""
    if not is_object(patch) or not is_object(read):
        return ""
    for key, value in patch.items():
        here = f"{path}.{key}" if path else str(key)
        found = _dropped(value, read[key], here) if key in read else "" if value is None else here
        if found:
            return found
    return ""


def _validated(agent: Agent[Any, Any], new: Json) -> Any:
    """The state as the agent's code would read and write it."""
    try:
        return from_json(agent.state_codec.write(agent.state_codec.load(to_json(new))))
    except NotStorable as error:
        raise WrongState(
            f"the edit does not fit {agent.state_type.__name__}: {error.message}",
            hint="nothing was changed; correct the field and send the edit again",
        ) from error
