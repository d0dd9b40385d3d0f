"""A program with the real small model in it ends as any other, whatever the model is doing (R6, R34)."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.local_model, pytest.mark.more]

PROGRAM = """
import asyncio, multiprocessing, os, signal, sys, threading
from standfast.models.local import LocalProvider
from standfast.replies import Request, Text

COUNT = "Count from one to one thousand, every number."  # it does; of a story it tells five words, and has ended

async def speak(text, told, most=3000):
    asked = Request([{"role": "user", "content": text}], options={"max_tokens": most})
    async with LocalProvider().stream(asked) as ds:
        async for delta in ds:
            told(delta)

"""
ENDINGS = {
    "the main program ends while a thread reads words": """
heard = threading.Event()
told = lambda delta: heard.set() if isinstance(delta, Text) else None
threading.Thread(target=lambda: asyncio.run(speak(COUNT, told)), daemon=True).start()
heard.wait()
print("leaving", flush=True)
""",
    "the main program ends while a thread reads a prompt": """
heard = threading.Event()
threading.Thread(target=lambda: asyncio.run(speak("word " * 2000, lambda _: heard.set())), daemon=True).start()
heard.wait()
print("leaving", flush=True)
""",
    "an error ends the loop": """
async def main():
    heard = asyncio.Event()
    task = asyncio.ensure_future(speak(COUNT, lambda d: heard.set()))
    await heard.wait()
    print("leaving", flush=True)
    sys.exit(0)
asyncio.run(main())
""",
    "the loop is closed under it": """
loop = asyncio.new_event_loop()
heard = asyncio.Event()
task = loop.create_task(speak(COUNT, lambda d: heard.set()))
loop.run_until_complete(heard.wait())
loop.close()
print("leaving", flush=True)
""",
    "while it is being loaded": """
async def main():
    task = asyncio.ensure_future(speak(COUNT, lambda d: None))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    print("leaving", flush=True)
asyncio.run(main())
""",
    "a fork of it ends": """
def child():
    asyncio.run(speak("Why is the sky blue?", lambda _: None, 5))  # with an engine of its own
heard = threading.Event()
threading.Thread(target=lambda: asyncio.run(speak(COUNT, lambda _: heard.set())), daemon=True).start()
heard.wait()
process = multiprocessing.get_context("fork").Process(target=child)
process.start()
process.join()
assert process.exitcode == 0
print("leaving", flush=True)
""",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_program_that_ends_in_mid_answer_ends_well(ending: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM + ENDINGS[ending]],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "leaving\n"), done.stderr
    assert "terminate called" not in done.stderr
    assert "Fatal Python error" not in done.stderr


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 3)], ids=["SIGTERM", "Ctrl-C"]
)
def test_signals_still_belong_to_the_program(number: signal.Signals, code: int) -> None:
    """llama.cpp takes both for itself, and would end neither the program nor its loop."""
    program = """
async def main():
    await speak(COUNT, lambda d: print("speaking", flush=True) if isinstance(d, Text) else None)
try:
    asyncio.run(main())
except KeyboardInterrupt:
    sys.exit(3)
"""
    with subprocess.Popen([sys.executable, "-c", PROGRAM + program], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "speaking\n"
            process.send_signal(number)
            process.stdout.read()
            assert process.wait(timeout=60) == code
        finally:
            process.kill()


def test_nobody_else_can_talk_to_it() -> None:
    """llama.cpp opens a server of its own: no port, and no socket that has a place in the file system."""
    program = """
async def main():
    heard = asyncio.Event()
    task = asyncio.ensure_future(speak(COUNT, lambda d: heard.set()))
    await heard.wait()
    files = [os.readlink(f.path) for f in os.scandir("/proc/self/fd") if os.path.lexists(f.path)]
    mine = {name[8:-1] for name in files if name.startswith("socket:")}
    rows = lambda name: [line.split() for line in open(f"/proc/net/{name}")]
    ports = [row for name in ("tcp", "tcp6") for row in rows(name) if row[9] in mine]
    paths = [row[7] for row in rows("unix") if row[6] in mine and len(row) > 7]
    print(len(ports), len(paths), [path for path in paths if os.path.exists(path)], flush=True)
    task.cancel()
asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM + program],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "0 1 []\n"
