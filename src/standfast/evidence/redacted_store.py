"""A store that is written to outside a Runtime, by an operator or a command: no secrets get into its record either."""

from __future__ import annotations

import os
from pathlib import Path

from standfast.evidence.keys import secret_of
from standfast.redaction import Redactor, Secret, of_environment
from standfast.stores.sqlite import SqliteStore

PURPOSE = b"redaction"


class RedactedStore(SqliteStore):
    """Replaces secrets as every Runtime does, with the hashes that the store's key gives."""

    def __init__(self, path: Path, *own: Secret, looks_only: bool = False) -> None:
        super().__init__(path, looks_only=looks_only)
        self._redactor = Redactor(*own, *of_environment(os.environ))
        self._keyed = False
        self.redact = self._lines

    def clean(self, text: str) -> str:
        """A text without secrets, for places that the record does not cover."""
        return self._keyed_redactor().text(text)

    def _lines(self, lines: bytes) -> bytes:
        return self._keyed_redactor().lines(lines)

    def _keyed_redactor(self) -> Redactor:
        if not self._keyed and (key := secret_of(self.path, PURPOSE)) is not None:  # it may be made after us
            self._redactor.key, self._keyed = key, True
        return self._redactor
