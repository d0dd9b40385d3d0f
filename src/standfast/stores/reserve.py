"""Room on the disk that is kept for stops: a file beside the store that is let go when the disk is full (R34).

Every process that keeps a store open for long shares it. Its size says how things stand: smaller than it should be
means that the disk was full, and that what is free now is for stops alone. That counts while somebody keeps it, and
takes it again: what a crash has left says nothing. Pieces are let go one at a time, because other programs on a full
disk take whatever becomes free.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import stat
import time
from pathlib import Path

log = logging.getLogger("standfast")

RESERVE_BYTES = 8 * 1024 * 1024  # a stop writes some 80 KB of log, and the log is used again
PIECE_BYTES = 1024 * 1024
SLACK_BYTES = 1024 * 1024  # so much must be free beyond it before it is taken again
AGAIN_SECONDS = 5.0  # a quota does not show in what the disk says is free: not at once after it was let go
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class Reserve:
    """The reserve of one store, as one process sees it."""

    def __init__(self, store: Path, size: int = RESERVE_BYTES) -> None:
        self.path = store.with_name(f"{store.name}-reserve")
        self._size = size
        self._fd: int | None = None
        self._given_up = False

    # --- keeping ------------------------------------------------------------------------------------

    def keep(self) -> None:
        """Take the room, and share it with the other processes of this store until `leave`."""
        while self._fd is None and not self._given_up:
            try:
                fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            except OSError as error:
                self._give_up(error)
                return
            try:
                _must_be_a_reserve(fd)
                fcntl.flock(fd, fcntl.LOCK_SH)
            except OSError as error:  # a file system without locks: nobody could say who is the last to leave
                os.close(fd)
                self._give_up(error)
                return
            if not self._is_at_its_place(fd):  # the last to leave has removed it meanwhile
                os.close(fd)
                continue
            self._fd = fd
            self._take()

    def _give_up(self, error: OSError) -> None:
        self._given_up = True
        log.warning("standfast: no room is kept for stops on a full disk: %s", error)

    def leave(self) -> None:
        """The last process to leave removes the file, as SQLite does with its log."""
        fd, self._fd = self._fd, None
        if fd is None:
            return
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if self._is_at_its_place(fd):
                self.path.unlink()
        except OSError:
            pass  # others share it, or the folder cannot be written: it stays
        finally:
            os.close(fd)

    def _is_at_its_place(self, fd: int) -> bool:
        with contextlib.suppress(OSError):
            return os.path.samestat(os.fstat(fd), self.path.lstat())
        return False

    # --- how things stand ---------------------------------------------------------------------------

    @property
    def short(self) -> bool:
        """Was the disk full, so that what is free is for stops alone?"""
        try:
            if self._fd is not None:
                return os.fstat(self._fd).st_size < self._size
            there = self.path.lstat()
        except OSError:
            return False  # nobody keeps any
        if not stat.S_ISREG(there.st_mode) or there.st_size >= self._size:
            return False  # what is no file was put there by somebody else, and is no word about the disk
        return self._shown_short(there.st_size)

    def _shown_short(self, there: int) -> bool:
        """To a process that does not keep it: by the disk, and by those who do and would have taken it again."""
        try:
            fd = os.open(self.path, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:
            return False  # not ours
        try:
            return not self._fits(fd, there) or _is_kept(fd)
        except OSError:
            return False
        finally:
            os.close(fd)

    @property
    def disk_is_short(self) -> bool:
        """Is hardly anything free beside it? What the disk says of itself; a quota does not show in it."""
        try:
            disk = os.statvfs(self.path.parent)
        except OSError:
            return True
        return disk.f_bavail * disk.f_frsize < SLACK_BYTES

    def _fits(self, fd: int, there: int) -> bool:
        """Is there room for what is missing, and more than that?"""
        disk = os.fstatvfs(fd)
        return disk.f_bavail * disk.f_frsize >= self._size - there + SLACK_BYTES

    # --- letting go and taking again -----------------------------------------------------------------

    def let_go(self) -> bool:
        """Free a piece for a stop; False if there is none left."""
        try:
            fd = os.open(self.path, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:
            return False
        try:
            there = os.fstat(fd).st_size
            if not there:
                return False
            os.ftruncate(fd, max(0, there - PIECE_BYTES))
        except OSError:
            return False
        finally:
            os.close(fd)
        if there >= self._size:
            log.error("standfast: the disk of %s is full: from now on its last room is used for stops alone", self.path)
        return True

    def tend(self) -> bool:
        """Take again what was let go, once there is room for more than that; True if all of it is kept."""
        if self._fd is None or not self.short:
            return not self.short
        try:
            about = os.fstat(self._fd)
            fits = self._fits(self._fd, about.st_size)
        except OSError:
            return False
        waits = 0 <= time.time() - about.st_mtime < AGAIN_SECONDS
        return fits and not waits and self._take()

    def _take(self) -> bool:
        fd = self._fd
        assert fd is not None
        try:
            _allocate(fd, self._size)
        except OSError as error:
            if error.errno not in _NO_ROOM:  # a limit on the size of files, say: that is no full disk
                self.leave()
                self._give_up(error)
            return False
        return True


def _must_be_a_reserve(fd: int) -> None:
    """OSError for what grows or shrinks something else: a device, or a file that has another name too."""
    about = os.fstat(fd)
    if not stat.S_ISREG(about.st_mode) or about.st_nlink > 1:
        raise OSError(errno.EEXIST, "what is in its place is not a file of its own")


def _is_kept(fd: int) -> bool:
    """Does any process share it?"""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _allocate(fd: int, size: int) -> None:
    """Really: a file with holes keeps nothing."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, 0, size)
        return
    there = os.fstat(fd).st_size
    while there < size:
        there += os.pwrite(fd, b"\0" * min(PIECE_BYTES, size - there), there)
