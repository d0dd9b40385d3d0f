"""A store that is written to outside a Runtime, by an operator or a command: no secrets get into its record either."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from standfast.evidence.keys import secret_of
from standfast.redaction import Redactor, Secret, of_environment
from standfast.stores.sqlite import SqliteStore

PURPOSE = b"redaction"


class RedactedStore(SqliteStore):
    """Replaces secrets as every Runtime does, with the hashes that the store's key gives."""

    def __init__(self, path: Path, *own: Secret, looks_only: bool = False) -> None:
        super().__init__(path, looks_only=looks_only)
        self._redactor = _Keyed(self.path, Redactor(*own, *of_environment(os.environ)))
        self.redact = self._redactor

    def clean(self, text: str) -> str:
        """A text without secrets, for places that the record does not cover."""
        return self._redactor.text(text)


class _Keyed:
    """A redactor that takes the store's key when it needs one: it may be made after us."""

    def __init__(self, path: Path, redactor: Redactor) -> None:
        self._path, self._redactor, self._keyed = path, redactor, False

    def passes(self, lines: bytes) -> bool:
        return self._redactor.passes(lines)

    def text(self, text: str) -> str:
        if not self._keyed and (key := secret_of(self._path, PURPOSE)) is not None:
            self._redactor.key, self._keyed = key, True
        return self._redactor.text(text)

    def line_by(self, line: bytes, text: Callable[[str], str]) -> bytes:
        return self._redactor.line_by(line, text)
