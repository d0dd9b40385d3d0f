"""Runs a program as if only some distributions were installed: `installed.py PROGRAM DISTRIBUTION...`."""

from __future__ import annotations

import runpy
import sys
from importlib import metadata
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any


def plain(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


class Installed:
    """Finds modules as ever, but those of the distributions that were not named."""

    def __init__(self, allowed: set[str]) -> None:
        found = metadata.packages_distributions()
        self._hidden = {module for module, of in found.items() if not {plain(one) for one in of} & allowed}

    def find_distributions(self, context: Any = None) -> Any:
        """Versions are asked for here."""
        return PathFinder.find_distributions(context)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return None if name.partition(".")[0] in self._hidden else PathFinder.find_spec(name, path, target)


def main() -> None:
    program, *allowed = sys.argv[1:]
    sys.meta_path[sys.meta_path.index(PathFinder)] = Installed({"standfast", *map(plain, allowed)})  # type: ignore[arg-type]
    sys.argv = [program]
    sys.path[0] = ""
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main()
