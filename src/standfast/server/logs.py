"""What the processes of a server write to their log, without secrets in it."""

from __future__ import annotations

import logging
import sys

from standfast.redaction import Redactor


class CleanLines(logging.Formatter):
    """Lines, and the tracebacks below them, with what is known to be secret taken out."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__("%(levelname)s %(message)s")
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        return self._redactor.text(super().format(record))


def log_to_stderr(redactor: Redactor) -> None:
    """All loggers of this process, unless somebody has set up logging already."""
    root = logging.getLogger()
    if not root.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(CleanLines(redactor))
        root.addHandler(handler)
