"""Edits of a paused run's state: a JSON Merge Patch, validated with the code or with the stored schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from standfast.agent import Agent
from standfast.codec import JsonSchema, expand_logs, from_json, merge_patch, one_line_diff, to_json
from standfast.errors import NotStorable, WrongState
from standfast.log_places import LogRows, collapse_logs
from standfast.records import Json
from standfast.snapshots import pack, unpack

Fetch = Callable[[str, int, int], list[bytes]]


def edited(
    patch: Json, agent: Agent[Any, Any] | None, fetch: Fetch, contract: Json, snapshot: bytes, baseline: bytes
) -> tuple[bytes, str, list[LogRows]]:
    """The snapshot after the edit, what it changes in one line, and log rows to be written."""
    plan, raw = unpack(snapshot)
    stored = from_json(raw)
    old = expand_logs(stored, fetch)
    new = merge_patch(old, patch)
    if not isinstance(new, dict):
        raise WrongState("an edit is an object of fields", hint='for example edit({"month": "June"})')
    if agent is not None:
        _validate(agent, new)
    else:
        schema: Any = contract["state"]
        JsonSchema.validate(schema, new)
    state, rows = collapse_logs(stored, new, fetch)
    before = expand_logs(from_json(unpack(baseline)[1]), fetch)
    return pack(plan, to_json(state)), one_line_diff(before, new), rows


def _validate(agent: Agent[Any, Any], new: Json) -> None:
    try:
        agent.state_codec.load(to_json(new))
    except NotStorable as error:
        raise WrongState(
            f"the edit does not fit {agent.state_type.__name__}: {error.message}",
            hint="nothing was changed; correct the field and send the edit again",
        ) from error
