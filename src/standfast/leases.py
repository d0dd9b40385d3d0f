"""Leases: who drives, and whether they are still alive.

A lease is a counter that its process keeps raising. Nobody compares clocks: whoever
sees a counter unchanged for a whole lease by its own monotonic clock may take over, and
at once when the system proves that the process is dead.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from standfast.abc import Tx
from standfast.clock import boot_id
from standfast.rows import LeaseRow

LEASE_SECONDS = 10.0
UNKNOWN = "?"  # when a process was started, where nobody could look


class Lease:
    """This process's claim to be alive."""

    def __init__(self, id: str, agents: list[str], seconds: float = LEASE_SECONDS) -> None:  # noqa: A002
        self.id = id
        self.seconds = seconds
        self.row = LeaseRow(
            id=id, counter=0, boot=boot_id(), pid=os.getpid(), started=start_time(os.getpid()), agents=agents
        )
        self.confirmed = time.monotonic()
        self.lapses = 0  # how often it was confirmed so late that somebody may have taken runs over

    @property
    def fresh(self) -> bool:
        """Was it confirmed less than half its length ago? Else nobody knows whose the runs are."""
        return time.monotonic() - self.confirmed < self.seconds / 2

    def confirm(self, at: float) -> None:
        """It was alive at `at`; whoever waited meanwhile must look whose its run is."""
        if at - self.confirmed >= self.seconds / 2:
            self.lapses += 1  # before `confirmed`: who sees it fresh again must see this too
        self.confirmed = at

    def take(self, tx: Tx) -> None:
        """Register this process."""
        tx.put_lease(self.row)

    def bump(self, tx: Tx) -> bool:
        """Say that this process is alive."""
        return tx.bump_lease(self.id)


class Others:
    """What this process has seen of other processes' leases."""

    def __init__(self, seconds: float = LEASE_SECONDS, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._monotonic = monotonic
        self._seen: dict[str, tuple[int, float]] = {}

    def observe(self, leases: list[LeaseRow]) -> None:
        """Note which counters have moved."""
        now = self._monotonic()
        for lease in leases:
            known = self._seen.get(lease.id)
            if known is None or known[0] != lease.counter:
                self._seen[lease.id] = (lease.counter, now)

    def gone(self, tx: Tx, holder: str) -> bool:
        """May somebody else take over what this holder drives?"""
        leases = {lease.id: lease for lease in tx.leases()}
        lease = leases.get(holder)
        if lease is None or proven_dead(lease):
            return True
        self.observe(list(leases.values()))
        return self._monotonic() - self._seen[holder][1] >= self._seconds

    def dead(self, tx: Tx, holder: str) -> bool:
        """Is this holder known to be dead, not only silent?"""
        return known_dead(tx, holder)


def known_dead(tx: Tx, holder: str) -> bool:
    """Is the process of this lease known to be dead? One that is only silent may come back."""
    lease = next((lease for lease in tx.leases() if lease.id == holder), None)
    return lease is None or proven_dead(lease)


def proven_dead(lease: LeaseRow) -> bool:
    """Does the system say that this process no longer exists? Unknown on another machine: False."""
    if not lease.boot or lease.boot != boot_id():
        return False
    started = start_time(lease.pid)
    return UNKNOWN not in (started, lease.started) and started != lease.started


def left_behind(lease: LeaseRow) -> bool:
    """Is this the lease of a process that is dead, or was before this machine was started?

    For stores that only one machine can use, such as a SQLite file with a write-ahead log.
    """
    here = boot_id().partition("/")[0]
    return proven_dead(lease) or (here != "" and lease.boot.partition("/")[0] != here)


def start_time(pid: int) -> str:
    """When a process was started, as the system counts; empty if there is none (or it is a zombie).

    UNKNOWN if nobody can look: a process without descriptors left must not take all others for dead.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    except OSError:
        return UNKNOWN
    return "" if fields[0] in "ZX" else fields[19]
