"""The page, with agents to try: `make demo` prints its address; Ctrl-C leaves everything so that it can go on."""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
import webbrowser
from pathlib import Path

from examples.agents import churn, literature
from examples.agents.thinking import has_local_model

from standfast import Runtime

PORT = 8000
SECONDS_TO_START = 60
SECONDS_TO_END = 10


def main() -> int:
    parser = argparse.ArgumentParser(prog="examples.demo", description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("standfast-demo"), help="where runs and effects are kept")
    parser.add_argument("--port", type=int, default=0, help=f"default: {PORT}, or any that is free")
    parser.add_argument("--no-browser", action="store_true")
    given = parser.parse_args()
    folder: Path = given.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    return show(folder, given.port or free_port(), browser=not given.no_browser)


def show(folder: Path, port: int, *, browser: bool) -> int:
    """Serve until Ctrl-C; the exit code is the server's."""
    token = secrets.token_urlsafe(24)
    store = folder / "runs.db"
    environment = os.environ | {"STANDFAST_TOKEN": token, "STANDFAST_DEMO_FOLDER": str(folder)}
    command = [sys.executable, "-m", "standfast.server", "examples.agents:AGENTS"]
    with (folder / "server.log").open("ab") as log:
        server = subprocess.Popen(
            [*command, "--store", str(store), "--port", str(port)], env=environment, stdout=log, stderr=log
        )

    def pass_on(number: int, _: object) -> None:
        server.send_signal(number)

    signal.signal(signal.SIGTERM, pass_on)
    address = f"http://127.0.0.1:{port}"
    try:
        asyncio.run(begin(server, address, store))
        link = f"{address}/#token={token}"
        print(f"\n  standfast is at  {link}\n")
        print(f"  thinking with    {'a real small model (SmolLM2)' if has_local_model() else 'scripted lines'}")
        print(f"  effects are in   {folder}")
        print("  Ctrl-C ends it; `make demo` goes on where it was\n", flush=True)
        if browser and has_screen():
            webbrowser.open(link)
        code = server.wait()
    except KeyboardInterrupt:
        end(server)
        code = 0
    except SystemExit:
        server.terminate()
        server.wait()
        raise
    print("everything is kept: `make demo` goes on where it was")
    return code


async def begin(server: subprocess.Popen[bytes], address: str, store: Path) -> None:
    """Until it answers; a first visit finds two runs under way."""
    for _ in range(SECONDS_TO_START * 10):
        if server.poll() is not None:
            raise SystemExit(f"the server did not start: see {store.with_name('server.log')}")
        if await asyncio.to_thread(answers, f"{address}/healthz"):
            break
        await asyncio.sleep(0.1)
    else:
        raise SystemExit(f"the server does not answer: see {store.with_name('server.log')}")
    async with Runtime(store, drive=False) as runs:
        if not await runs.list(limit=1):
            for agent in (churn, literature):
                await runs.start(agent, {}, by="make demo", labels={"from": "make demo"})


def answers(url: str) -> bool:
    """Does anybody answer there, whatever they say?"""
    try:
        with urllib.request.urlopen(url, timeout=2):
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


def end(server: subprocess.Popen[bytes]) -> None:
    """Ctrl-C in a terminal has reached the server too: it is asked once more only if it does not go."""
    try:
        server.wait(SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        server.send_signal(signal.SIGTERM)
        server.wait()


def free_port() -> int:
    """The usual one, or any that is free."""
    for wanted in (PORT, 0):
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", wanted))
            except OSError:
                continue
            return int(one.getsockname()[1])
    raise SystemExit("no port is free")


def has_screen() -> bool:
    """Is there somewhere to open a page?"""
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


if __name__ == "__main__":
    sys.exit(main())
