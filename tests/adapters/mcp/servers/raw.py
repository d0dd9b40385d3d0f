"""An MCP server written by hand, that misbehaves as FOLDER/mode.json says; `python raw.py FOLDER`.

Every line it receives is kept in FOLDER/received. The mode is read anew for every message:

- initialize: "hang", "die", "nonsense" (not JSON), "version" (one that nobody knows)
- tools: the list of tools (default: one write tool "work", one read tool "look")
- call: "answer" (default), "hang", "stray" (prints a line, then answers), "garbage" (a line instead of an answer),
  "broken" (half a JSON object), "wrong id", "wrong shape", "error", "die", "changed" (announces other tools first);
  or one of these for each tool, by name
- cancel: "silent" (default: stops, says nothing), "error" (says so), "finish" (answers at once with a result),
  "ignore" (goes on, and answers when FOLDER/go exists)
- ping: false (never answers)
- eof: "stay" (does not end when its input is closed)
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1])
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TOOLS = [
    {"name": "work", "description": "Does something.", "inputSchema": SCHEMA},
    {"name": "look", "inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}},
]
waiting: list[Any] = []  # ids of calls that go on


def mode() -> dict[str, Any]:
    file = FOLDER / "mode.json"
    return dict(json.loads(file.read_text())) if file.exists() else {}


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def send(**message: Any) -> None:
    say(json.dumps({"jsonrpc": "2.0", **message}))


def text(words: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}]}


def initialize(message: dict[str, Any], how: str) -> None:
    if how == "hang":
        return
    if how == "die":
        sys.stderr.write("no licence\n")
        sys.exit(7)
    if how == "nonsense":
        say("welcome to the server!")
        return
    send(
        id=message["id"],
        result={
            "protocolVersion": "1066-10-14" if how == "version" else message["params"]["protocolVersion"],
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "raw", "version": "1"},
        },
    )


def call(message: dict[str, Any], how: str) -> None:
    id_ = message["id"]
    answer = text(f"did {message['params']['arguments'].get('n')}")
    if how == "hang":
        waiting.append(id_)
    elif how == "die":
        sys.stderr.write("segmentation fault\n")
        sys.stderr.flush()
        os._exit(9)
    elif how == "garbage":
        say("Traceback (most recent call last):")
    elif how == "broken":
        say('{"jsonrpc": "2.0", "id": ' + json.dumps(id_) + ', "result": {"conte')
    elif how == "wrong id":
        send(id=4711, result=answer)
    elif how == "wrong shape":
        send(id=id_, result={"content": "not a list"})
    elif how == "error":
        send(id=id_, error={"code": -32602, "message": "no such thing"})
    elif how == "changed":
        send(method="notifications/tools/list_changed")
        send(id=id_, result=answer)
    else:
        if how == "stray":
            say("debug: working on it")
        send(id=id_, result=answer)


def cancelled(message: dict[str, Any], how: str) -> None:
    id_ = message["params"]["requestId"]
    if id_ not in waiting or how == "ignore":
        return
    waiting.remove(id_)
    if how == "error":
        send(id=id_, error={"code": 0, "message": "Request cancelled"})
    elif how == "finish":
        send(id=id_, result=text("finished all the same"))


def take(line: bytes) -> None:
    with (FOLDER / "received").open("ab") as file:
        file.write(line + b"\n")
    message = json.loads(line)
    now = mode()
    method = message.get("method")
    if method == "initialize":
        initialize(message, now.get("initialize", ""))
    elif method == "tools/list":
        send(id=message["id"], result={"tools": now.get("tools", TOOLS)})
    elif method == "tools/call":
        how = now.get("call", "answer")
        call(message, how.get(message["params"]["name"], "answer") if isinstance(how, dict) else how)
    elif method == "notifications/cancelled":
        cancelled(message, now.get("cancel", "silent"))
    elif method == "ping" and now.get("ping", True):
        send(id=message["id"], result={})


def main() -> None:
    with (FOLDER / "pids").open("a") as file:
        file.write(f"{os.getpid()}\n")
    buffer = b""
    while True:
        if select.select([0], [], [], 0.02)[0]:
            data = os.read(0, 65536)
            if not data:
                while mode().get("eof") == "stay":
                    time.sleep(0.05)
                return
            *lines, buffer = (buffer + data).split(b"\n")
            for line in lines:
                take(line)
        if waiting and (FOLDER / "go").exists():
            send(id=waiting.pop(0), result=text("late"))


main()
