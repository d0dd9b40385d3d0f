"""Named queries, read from the .sql files beside this module."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

_PACKAGE = "standfast.stores"
_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def _text(name: str) -> str:
    return resources.files(_PACKAGE).joinpath("sql", name).read_text("utf-8")


@cache
def queries() -> dict[str, str]:
    """Every query by its name."""
    parts = _NAME.split(_text("queries.sql"))
    bodies = zip(parts[1::2], parts[2::2], strict=True)
    return {name: " ".join(_without_comments(body).split()).rstrip(";") for name, body in bodies}


@cache
def migrations() -> tuple[list[str], ...]:
    """The statements of each schema version, oldest first."""
    folder = resources.files(_PACKAGE).joinpath("sql")
    names = sorted(f.name for f in folder.iterdir() if re.match(r"\d{4}_.*\.sql$", f.name))
    return tuple([s.strip() for s in _without_comments(_text(name)).split(";") if s.strip()] for name in names)


def _without_comments(sql: str) -> str:
    return "\n".join(line for line in sql.splitlines() if not line.lstrip().startswith("--"))
