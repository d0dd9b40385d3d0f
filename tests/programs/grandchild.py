"""Starts a grandchild in a session of its own that holds this program's pipes, then writes both pids and waits."""

import os
import subprocess
import sys
import time
from pathlib import Path

IGNORE = "import signal, time; [signal.signal(s, signal.SIG_IGN) for s in (1, 2, 15)]; time.sleep(120)"
child = subprocess.Popen([sys.executable, "-c", IGNORE], start_new_session=True)
print("half of the output", flush=True)
part = Path(sys.argv[1] + ".part")
part.write_text(f"{os.getpid()} {child.pid}")
part.rename(sys.argv[1])
time.sleep(120)
