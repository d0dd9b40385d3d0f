"""Checked by mypy and pyright, never run: what may be asked of the machine, and what the checker must refuse."""

from __future__ import annotations

from typing import assert_type

from standfast.machine import Rule, can, decide

assert_type(decide("paused", "resume"), Rule)
assert_type(can(None, "start", "queued"), bool)

decide("stopped", "resume")  # type: ignore[arg-type]
decide("paused", "takeover")  # type: ignore[arg-type]
can("paused", "resume", "cancelled!")  # type: ignore[arg-type]
