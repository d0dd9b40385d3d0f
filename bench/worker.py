"""One workload of one contender in a process of its own: `python -m bench.worker PEER WORKLOAD JSON-ARGUMENTS`.

The last line it prints is {"import": seconds, "result": ...}.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time


def main() -> None:
    peer, workload, arguments = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    start = time.perf_counter()
    module = importlib.import_module(f"bench.peers.{peer}")
    imported = time.perf_counter() - start
    result = getattr(module, workload)(**arguments)
    print(json.dumps({"import": imported, "result": result}), flush=True)
    # Some peers leave runs waiting in threads on purpose: a normal exit would wait for them.
    os._exit(0)


if __name__ == "__main__":
    main()
