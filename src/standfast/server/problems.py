"""What went wrong, as application/problem+json: what happened, what became of the run, what to do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from starlette.responses import Response

from standfast.errors import Halted, Misuse, RunIdTaken, StandfastError, StoreBusy, StoreError, UnknownHalt, UnknownRun
from standfast.tokens import TokenEnded

TYPES = "urn:standfast:problem:"  # names, not pages: they tell problems apart
TITLES = {
    400: "The request cannot be read",
    401: "Who are you?",
    403: "Not allowed",
    404: "Not found",
    405: "No such method here",
    409: "The run says no",
    413: "The request is too large",
    415: "JSON only",
    421: "Wrong host",
    422: "The request makes no sense",
    429: "Too many requests",
    500: "The server failed",
    503: "The store cannot be used just now",
}


class Problem(Exception):
    """An answer that is an error. Raise it anywhere below the routes."""

    def __init__(
        self,
        status: int,
        detail: str,
        hint: str = "",
        *,
        kind: str = "",
        headers: Mapping[str, str] = {},
        by: str | None = None,
        **more: Any,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.hint = hint
        self.kind = kind or TITLES.get(status, "problem").lower().replace(" ", "-").rstrip("?")
        self.headers = dict(headers)
        self.more = more
        self.by = by  # who was refused, where that is known though they are let in no longer
        self.noted = False  # is the attempt in the record already?

    @property
    def body(self) -> dict[str, Any]:
        """As the wire shows it."""
        return {
            "type": TYPES + self.kind,
            "title": TITLES.get(self.status, "Problem"),
            "status": self.status,
            "detail": self.detail,
            "hint": self.hint,
            **self.more,
        }

    def response(self) -> Response:
        """The HTTP response."""
        body = json.dumps(self.body).encode()
        return Response(body, self.status, self.headers, media_type="application/problem+json")


def problem_of(error: StandfastError, run: str | None = None) -> Problem:
    """What a standfast error means to somebody far away."""
    more: dict[str, Any] = {} if run is None else {"run": run}
    kind = type(error).__name__
    if isinstance(error, StoreBusy):
        return Problem(503, error.message, error.hint, kind=kind, headers={"retry-after": "1"}, **more)
    if isinstance(error, StoreError):
        return Problem(503, error.message, error.hint, kind=kind, headers={"retry-after": "5"}, **more)
    if isinstance(error, Halted):
        return Problem(409, error.message, error.hint, kind=kind, halts=list(error.halts), **more)
    if isinstance(error, UnknownRun | UnknownHalt):
        return Problem(404, error.message, error.hint, kind=kind, **more)
    if isinstance(error, TokenEnded):
        return Problem(401, error.message, error.hint, kind=kind, **more)
    if isinstance(error, RunIdTaken):
        return Problem(409, error.message, error.hint, kind=kind, **more)
    status = 422 if isinstance(error, Misuse) else 409
    return Problem(status, error.message, error.hint, kind=kind, **more)


def failed(error: Exception) -> Problem:
    """Our own fault: what it was is in the log, with its traceback."""
    hint = "see the server's log; runs are not touched by it"
    return Problem(500, f"the server failed: {type(error).__name__}", hint)


def malformed(error: ValidationError) -> Problem:
    """Which fields of a request are wrong, and why."""
    told = [
        f"{'.'.join(map(str, one['loc'])) or 'the body'}: {one['msg']}"
        for one in error.errors(include_url=False, include_input=False)
    ]
    return Problem(422, "; ".join(told[:10]), "see /openapi.json for what is expected")
