"""Are faults known of the versions we are locked to? Fails if so; says NOT AUDITED where nobody can be asked.

Run by `make check`, with pip-audit; more arguments are passed on to it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

LOCK = Path(__file__).with_name("dependencies.txt")
COMMAND = (sys.executable, "-m", "pip_audit", "--disable-pip", "--progress-spinner", "off", "--timeout", "10")


def asked(lock: Path, *more: str) -> list[dict[str, Any]] | None:
    """What is known of each package; None if nobody could be asked."""
    told = subprocess.run(
        [*COMMAND, "--format", "json", "-r", str(lock), *more], capture_output=True, text=True, check=False
    )
    try:
        return list(json.loads(told.stdout)["dependencies"])
    except (ValueError, KeyError):
        return None


def judged(packages: list[dict[str, Any]] | None) -> tuple[int, str]:
    """The exit code, and what to say: a package that nobody could tell about is no reason to call it sound."""
    known = [] if packages is None else [p for p in packages if "vulns" in p]
    faults = [f"{p['name']} {p['version']}: {fault['id']}" for p in known for fault in p["vulns"]]
    if faults:
        return 1, "known faults: " + "; ".join(faults) + "\n`make lock` takes newer versions, if there are any"
    if packages is None or not known:
        return 0, "dependencies: NOT AUDITED, the list of known faults cannot be reached from here"
    untold = len(packages) - len(known)
    return 0, f"dependencies: {len(known)} audited, no known faults" + (f"; {untold} NOT AUDITED" if untold else "")


if __name__ == "__main__":
    code, text = judged(asked(LOCK, *sys.argv[1:]))
    sys.stdout.write(text + "\n")
    sys.exit(code)
