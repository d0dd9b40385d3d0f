"""Programs that code of a run starts by itself, by `subprocess` or by asyncio, carry its mark (R39).

`subprocess.Popen` is wrapped, because asyncio starts its programs by it too, and because nothing else knows which
context a program is started in. Outside calls and steps it does what it always did.
"""

from __future__ import annotations

import functools
import inspect
import subprocess
import threading
from typing import Any

from standfast.bodies.marks import marked
from standfast.bodies.standing_in import StandIn
from standfast.context import Stopped, current_call
from standfast.scope import current_attempt

_signature = inspect.signature(subprocess.Popen.__init__)
_lock = threading.Lock()
_users = 0
_stands: StandIn | None = None


def mark_programs() -> None:
    """From now on programs of runs are marked; may be repeated."""
    global _users, _stands  # noqa: PLW0603 - one class, wrapped once for all runtimes of this process
    with _lock:
        _users += 1
        if _users == 1:
            _stands = _stand_in()


def leave_programs() -> None:
    """As often as they were marked: then they are started as before."""
    global _users, _stands  # noqa: PLW0603
    with _lock:
        _users -= 1
        if not _users and _stands is not None:
            _stands.remove()
            _stands = None


def _stand_in() -> StandIn:
    """Each knows what it was put around: whoever wraps one of them, no two ever call each other in a circle."""
    stands = StandIn(subprocess.Popen, "__init__")
    plain: Any = subprocess.Popen.__init__

    @functools.wraps(plain)
    def start(self: Any, *args: Any, **kwargs: Any) -> None:
        mark = _mark() if stands.active else ""
        if not mark:
            plain(self, *args, **kwargs)
            return
        given = _signature.bind(self, *args, **kwargs)
        given.arguments["env"] = marked(given.arguments.get("env"), mark)
        plain(*given.args, **given.kwargs)

    stands.put(start)
    return stands


def _mark() -> str:
    call, attempt = current_call.get(), current_attempt.get()
    if call is not None:
        return call.begin_program(clean_up=True)
    if attempt is None:
        return ""
    if attempt.over:
        raise Stopped("no program is started for a step that was stopped and has ended")
    return attempt.begin_program()
