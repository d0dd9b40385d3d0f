"""Tools that test_processes.py runs in processes of their own."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from standfast.bodies.programs import run_process
from standfast.context import idempotency_key, progress, say, spend, stop_token, use
from standfast.errors import NotPerformed
from standfast.tools import tool


@tool(process=True)
def add(a: int, b: int) -> int:
    return a + b


@tool(process=True)
async def tell(text: str) -> str:
    say(text)
    spend(3, 4, 0.5)
    progress(0.25, "a quarter")
    print("printed by the tool")  # must not disturb the protocol
    assert sys.stdin.read() == ""
    assert not stop_token().stopped
    return f"{idempotency_key()} {text}"


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


@tool(process=True)
def environment() -> tuple[str | None, int, int, list[int]]:
    """PYTHONPATH, process, session, and the descriptors that a program would inherit."""
    open_ones = [int(entry.name) for entry in os.scandir("/proc/self/fd")]
    inherited = [fd for fd in open_ones if fd > 2 and is_open(fd) and os.get_inheritable(fd)]
    return os.environ.get("PYTHONPATH"), os.getpid(), os.getsid(0), inherited


@tool(process=True)
def fails(how: str) -> int:
    match how:
        case "error":
            raise KeyError("lost")
        case "nothing happened":
            raise NotPerformed("the card was refused")
        case "exit":
            sys.exit(3)
        case "die":
            os._exit(7)
        case "segfault":
            ctypes.string_at(0)
        case "use":
            use(dict)
        case "wrong result":
            return "no number"  # type: ignore[return-value]
        case _:
            raise AssertionError(how)
    return 0


@tool(process=True)
def lingers() -> str:
    threading.Thread(target=time.sleep, args=(1000,)).start()
    return "done"


@tool(process=True)
def fork_holds_pipe(folder: str) -> str:
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(1000,), daemon=False)
    child.start()
    Path(folder, "fork.pid").write_text(str(child.pid))
    os.kill(os.getpid(), 9)
    return "unreachable"


@tool(process=True)
def holds_the_interpreter(folder: str) -> None:
    """A C call that never returns and lets no other Python thread run."""
    Path(folder, "tool.pid").write_text(str(os.getpid()))
    ctypes.PyDLL(None).sleep(1000)


@tool(process=True)
async def starts_programs(folder: str) -> None:
    Path(folder, "tool.pid").write_text(str(os.getpid()))
    subprocess.Popen(["setsid", "sh", "-c", f"echo $$ > {folder}/a.pid; exec sleep 1000"])
    await run_process("sh", "-c", f"echo $$ > {folder}/b.pid; exec sleep 1000")


class Kit:
    @tool(process=True)
    @staticmethod
    def double(n: int) -> int:
        return 2 * n
