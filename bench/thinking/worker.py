"""One measurement in a process of its own: `python -m bench.thinking.worker LOOP FUNCTION JSON-ARGUMENTS`."""

from __future__ import annotations

import importlib
import json
import os
import sys


def main() -> None:
    loop, function, arguments = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    result = getattr(importlib.import_module(f"bench.thinking.loops.{loop}"), function)(**arguments)
    print(json.dumps(result), flush=True)
    os._exit(0)  # some loops leave threads behind


if __name__ == "__main__":
    main()
