"""Agents whose module takes its time to be imported."""

import time

time.sleep(4)

from tests.programs.served import AGENTS  # noqa: E402

__all__ = ["AGENTS"]
