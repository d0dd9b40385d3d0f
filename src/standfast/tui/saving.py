"""A run with its receipt and its record, as one JSON file."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

from pydantic_core import to_json

from standfast.cli.access import Access
from standfast.events import plain
from standfast.shapes import receipt_json, view_json


async def saved(access: Access, run: str, folder: Path | None = None) -> Path:
    """Write it beside whoever asks, readable by them alone; a file that is there already is never written over."""
    receipt = await access.receipt(run)
    body = to_json(
        {
            "run": view_json(await access.view(run)),
            "receipt": None if receipt is None else receipt_json(receipt),
            "record": [plain(event) for event in await access.record(run)],
        },
        indent=2,
        inf_nan_mode="null",
    )
    name = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in run).lstrip(".") or "run"
    for number in count():
        path = (folder or Path()) / f"{name}{f'-{number}' if number else ''}.json"
        try:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            continue
        with os.fdopen(file, "wb") as writing:
            writing.write(body)
        return path
    raise AssertionError("there is always another number")
