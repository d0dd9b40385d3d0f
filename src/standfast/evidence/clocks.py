"""What the checkpoints and stops of a bundle tell of the clocks: wall time beside the machine's own seconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pydantic import TypeAdapter

from standfast.evidence.statements import Shown
from standfast.lazily import adapter
from standfast.records import Moment
from standfast.stop_records import StopRecord

JUMP_SECONDS = 5.0  # less is not told: clocks are slewed, and a busy machine reads one a moment after the other


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Both clocks at one moment; their difference stays the same while nobody sets the wall clock."""

    what: str
    at: float
    uptime: float | None
    boot: str | None
    offset: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Jump:
    """Between two readings the wall clock moved by so much more, or less, than the machine's own."""

    after: str
    before: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """Every reading of both clocks, in order, and where they moved apart by more than JUMP_SECONDS."""

    readings: tuple[Reading, ...]
    jumps: tuple[Jump, ...]

    def file(self) -> bytes:
        """As a part of a bundle."""
        return _clocks.dump_json(self, indent=1)


_clocks: TypeAdapter[Clocks] = adapter(Clocks)


def clocks_of(checkpoints: Iterable[Shown], stops: Iterable[tuple[str, Sequence[StopRecord]]]) -> Clocks:
    """What is known of the clocks; stops by their run."""
    readings = [_reading(f"checkpoint {one.n}", Moment(one.at, one.uptime, one.boot or None)) for one in checkpoints]
    for run, records in stops:
        for stop in records:
            what = f"stop {stop.number} of {run}"
            readings += [_reading(f"{what}: asked", stop.asked), _reading(f"{what}: accepted", stop.accepted)]
            if stop.settled is not None:
                readings.append(_reading(f"{what}: settled", stop.settled))
    return Clocks(readings=tuple(readings), jumps=tuple(_jumps(readings)))


def _reading(what: str, moment: Moment) -> Reading:
    offset = None if moment.uptime is None else moment.at - moment.uptime
    return Reading(what=what, at=moment.at, uptime=moment.uptime, boot=moment.boot, offset=offset)


def _jumps(readings: Iterable[Reading]) -> Iterable[Jump]:
    last: dict[str, Reading] = {}
    known = [one for one in readings if one.boot is not None and one.uptime is not None]
    for one in sorted(known, key=lambda each: each.uptime or 0.0):
        assert one.boot is not None
        assert one.offset is not None
        before = last.get(one.boot)
        if before is not None and before.offset is not None and abs(one.offset - before.offset) > JUMP_SECONDS:
            yield Jump(after=before.what, before=one.what, seconds=one.offset - before.offset)
        last[one.boot] = one
