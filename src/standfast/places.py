"""Where code is, in a person's words: "fetch at tools.py:12"."""

from __future__ import annotations

import asyncio
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import Any

_OURS = str(Path(__file__).parent)
_STANDARD = sysconfig.get_path("stdlib")


def place_of_task(task: asyncio.Task[Any]) -> str:
    """Where a task waits: the innermost code that is neither ours nor Python's own."""
    coroutine: Any = task.get_coro()
    name = getattr(coroutine, "__qualname__", task.get_name())
    frames: list[FrameType] = []
    while coroutine is not None:
        frame = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "gi_frame", None)
        if frame is not None:
            frames.append(frame)
        coroutine = getattr(coroutine, "cr_await", None) or getattr(coroutine, "gi_yieldfrom", None)
    return _place(reversed(frames)) or name


def place_of_thread(thread: int) -> str:
    """What a thread is doing; "" if it has ended."""
    frames: list[FrameType] = []
    frame = sys._current_frames().get(thread)  # pyright: ignore[reportPrivateUsage] - documented
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return _place(frames)


def _place(innermost_first: Iterable[FrameType]) -> str:
    frames = list(innermost_first)
    if not frames:
        return ""
    frame = next((f for f in frames if _of_a_person(f)), frames[0])
    code = frame.f_code
    return f"{code.co_qualname} at {Path(code.co_filename).name}:{frame.f_lineno}"


def _of_a_person(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    standard = file.startswith((_STANDARD, "<frozen")) and "-packages" not in file
    return not standard and not file.startswith(_OURS)
