"""How the body of a call runs, so that it can really be stopped.

threads     a synchronous function in a thread of its own
processes   a tool's function in a new interpreter
programs    any program, with everything it starts
"""

from __future__ import annotations


class Cut(Exception):  # noqa: N818 - a statement of fact, not an error name
    """The body was cut before it ended by itself."""


class RemoteError(Exception):
    """A process tool ended without a result; type, message and traceback are those of its process."""

    def __init__(self, type: str, message: str, traceback: str = "", *, not_performed: bool = False) -> None:  # noqa: A002 - reads as the field
        super().__init__(f"{type}: {message}" if message else type)
        self.type = type
        self.message = message
        self.traceback = traceback
        # the tool itself said that nothing happened, by raising NotPerformed
        self.not_performed = not_performed
