"""A child process that can be watched and killed without ever hitting a stranger's pid."""

from __future__ import annotations

import asyncio
import contextvars
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence

from standfast.bodies.trees import kill_tree


class Child:
    """A started program; its pid stays its own until `reap()`, so `kill()` never meets another process."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        new_session: bool,
        stdin: int | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
    ) -> None:
        self._loop = asyncio.get_running_loop()
        # done once the process has ended, while it still waits to be reaped
        self.exited: asyncio.Future[None] = self._loop.create_future()
        self._lock = threading.Lock()  # between kill() and reap()
        self._pidfd = -1
        # in no call's context: whether it carries a mark is for whoever starts it to say
        self.process = contextvars.Context().run(
            subprocess.Popen[bytes],
            list(argv),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=cwd,
            env=env,
            pass_fds=pass_fds,
            start_new_session=new_session,
            bufsize=0,
        )
        self.pid = self.process.pid
        self._watch()

    def kill(self) -> list[int]:
        """SIGKILL to the process and its whole tree, at once, from any thread; nothing once it is reaped."""
        with self._lock:
            return kill_tree(self.pid) if self.process.returncode is None else []

    def reap(self) -> int:
        """The return code of a process that has exited."""
        with self._lock:
            return self.process.wait()

    def release(self) -> None:
        """Reap it once it has gone, whenever that is: nobody need wait, and no cancel leaves a zombie."""
        if self.process.returncode is not None:
            self.close()
        elif self.exited.done():
            self._bury(self.exited)
        else:
            self.exited.add_done_callback(self._bury)

    def _bury(self, exited: asyncio.Future[None]) -> None:
        if not exited.cancelled():
            self.reap()
        self.close()

    def close(self) -> None:
        """Stop watching; harmless when repeated."""
        if self._pidfd >= 0:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1
        self.exited.cancel()

    def _watch(self) -> None:
        if sys.platform == "linux":
            try:
                self._pidfd = os.pidfd_open(self.pid)
            except OSError:  # an old kernel, a sandbox, or no descriptors left
                pass
            else:
                self._loop.add_reader(self._pidfd, self._noticed_exit)
                return
        threading.Thread(target=self._wait, name=f"standfast-wait-{self.pid}", daemon=True).start()

    def _wait(self) -> None:
        if hasattr(os, "waitid"):
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        else:
            self.process.wait()
        try:
            self._loop.call_soon_threadsafe(self._noticed_exit)
        except RuntimeError:
            if not self._loop.is_closed():
                raise

    def _noticed_exit(self) -> None:
        if self._pidfd >= 0:
            self._loop.remove_reader(self._pidfd)
        if not self.exited.done():
            self.exited.set_result(None)
