"""Tools that run in processes of their own, for the tests of cancelling."""

import os
import subprocess
import sys
import time
from pathlib import Path

from standfast import say, tool


@tool(effect="read", process=True)
def stuck(pids: str) -> str:
    """Never ends, whatever is raised in it; a child of its own, too."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"], start_new_session=True)
    say("begun")
    part = Path(pids + ".part")
    part.write_text(f"{os.getpid()} {child.pid}")
    part.rename(pids)
    while True:
        try:
            time.sleep(120)
        except BaseException:  # noqa: BLE001 - swallowing is the point
            continue
