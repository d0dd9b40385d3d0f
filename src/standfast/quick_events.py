"""The three events of every ordinary step, written straight from what is already JSON.

They are written on the hot path and read back as `CallStarted`, `CallFinished` and `StepFinished`;
fields that have their default value are left out.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from pydantic_core import to_json

from standfast.events import Event
from standfast.records import CallRef


class Quick:
    """Something of a step that writes its own event, without secrets since its commit was sealed."""

    __slots__ = ()

    @abstractmethod
    def json(self, seq: int, at: bytes) -> bytes:
        """The event, with its number and its time (which is JSON already)."""
        ...


@dataclass(frozen=True, slots=True)
class Sealed:
    """An event whose secrets were taken out when its commit was sealed: it is written as it is.

    One that is made inside the transaction is not sealed, and the store looks at it.
    """

    event: Event


def call_started(seq: int, at: bytes, ref: CallRef, args: bytes, attempt: int, why: str) -> bytes:
    """Becomes `CallStarted`."""
    more = b""
    if ref.title:
        more += b',"title":' + to_json(ref.title)
    if why:
        more += b',"why":' + to_json(why)
    return b'{"type":"call_started","seq":%d,"at":%b,"call":%b,"tool":%b,"effect":"%b","attempt":%d,"args":%b%b}' % (
        *(seq, at, to_json(ref.id), to_json(ref.tool), ref.effect.encode(), attempt, args, more),
    )


def call_finished(seq: int, at: bytes, call: str, result: bytes) -> bytes:
    """Becomes `CallFinished`."""
    return b'{"type":"call_finished","seq":%d,"at":%b,"call":%b,"result":%b}' % (seq, at, to_json(call), result)


def step_finished(seq: int, at: bytes, step: int, attempt: int) -> bytes:
    """Becomes `StepFinished`."""
    return b'{"type":"step_finished","seq":%d,"at":%b,"step":%d,"attempt":%d}' % (seq, at, step, attempt)
