"""The three events of every ordinary step, encoded straight from what is already JSON.

They are written on the hot path and read back as `CallStarted`, `CallFinished` and
`StepFinished`; fields that have their default value are left out.
"""

from __future__ import annotations

from pydantic_core import to_json

from standfast.records import CallRef


class QuickStarted:
    """Becomes `CallStarted`."""

    __slots__ = ("_args", "_attempt", "_ref", "_why")

    def __init__(self, ref: CallRef, args: bytes, attempt: int, why: str) -> None:
        self._ref = ref
        self._args = args
        self._attempt = attempt
        self._why = why

    def json(self, seq: int, at: float) -> bytes:
        ref = self._ref
        more = b""
        if ref.title:
            more += b',"title":' + to_json(ref.title)
        if self._why:
            more += b',"why":' + to_json(self._why)
        return (
            b'{"type":"call_started","seq":%d,"at":%r,"call":%b,"tool":%b,"effect":"%b","attempt":%d,"args":%b%b}'
            % (*(seq, at, to_json(ref.id), to_json(ref.tool), ref.effect.encode(), self._attempt, self._args, more),)
        )


class QuickFinished:
    """Becomes `CallFinished`."""

    __slots__ = ("_call", "_result")

    def __init__(self, call: str, result: bytes) -> None:
        self._call = call
        self._result = result

    def json(self, seq: int, at: float) -> bytes:
        return b'{"type":"call_finished","seq":%d,"at":%r,"call":%b,"result":%b}' % (
            seq,
            at,
            to_json(self._call),
            self._result,
        )


class QuickStep:
    """Becomes `StepFinished`."""

    __slots__ = ("_attempt", "_step")

    def __init__(self, step: int, attempt: int) -> None:
        self._step = step
        self._attempt = attempt

    def json(self, seq: int, at: float) -> bytes:
        return b'{"type":"step_finished","seq":%d,"at":%r,"step":%d,"attempt":%d}' % (
            seq,
            at,
            self._step,
            self._attempt,
        )


Quick = QuickStarted | QuickFinished | QuickStep
