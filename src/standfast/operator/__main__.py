"""`python -m standfast.operator STORE`: the operator's process, as `standfast serve` starts it."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from standfast.errors import StandfastError
from standfast.operator.listening import listen


def main() -> int:
    """0 when it was told to go, 1 if it cannot listen."""
    given = argparse.ArgumentParser(prog="standfast.operator")
    given.add_argument("store", type=Path)
    given.add_argument("--port", type=int)
    given.add_argument("--server", type=int, help="the process that started it")
    words = given.parse_args()
    try:
        listen(
            words.store.absolute(),
            port=words.port,
            token=os.environ.pop("STANDFAST_HALT_TOKEN", ""),
            server=words.server,
            tell=lambda text: print(text, file=sys.stderr, flush=True),  # noqa: T201 - a program
        )
    except StandfastError as error:
        sys.stderr.write(f"standfast operator: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
