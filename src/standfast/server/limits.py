"""What is the server's alone, and not for what it starts."""

from __future__ import annotations

import os

TOKEN = "STANDFAST_TOKEN"
HALT_TOKEN = "STANDFAST_HALT_TOKEN"
NOTIFY = "STANDFAST_NOTIFY"
OURS = frozenset({TOKEN, HALT_TOKEN, NOTIFY})


def without_secrets() -> dict[str, str]:
    """The environment for whatever this server starts: agents and commands do not get what is the server's alone."""
    return {name: value for name, value in os.environ.items() if name not in OURS}
