"""What an operator may ask for: halt, lift, list. Straight on the store, and nothing else."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from standfast.abc import Tx, Use
from standfast.arguments import MOST_LABELS, shortened
from standfast.clock import RandomIds, moment
from standfast.errors import Misuse, StandfastError, StoreBusy
from standfast.evidence.redacted_store import RedactedStore
from standfast.lazily import adapter
from standfast.leases import known_dead
from standfast.records import Halt, Json
from standfast.redaction import exactly
from standfast.verbs import Sign, Verify, halts_in, lift_halt, set_halt, wanted_halt

T = TypeVar("T")

PATIENCE = 15.0  # seconds for which a store that others keep locked is tried again and again
_halts: TypeAdapter[Halt] = adapter(Halt)
LONGEST_NAME = 2_000
_Name: TypeAlias = Annotated[str, Field(max_length=LONGEST_NAME)]
_Told: TypeAlias = Annotated[str, AfterValidator(shortened)]  # what is only told is never too long for a stop


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class AskHalt(_Asked):
    """Stop every run that matches, and hold it."""

    do: Literal["halt"]
    id: _Name | None = None
    agent: _Name | None = None
    labels: dict[_Name, _Name] = Field({}, max_length=MOST_LABELS)
    all: bool = False
    then: Literal["pause", "cancel"] = "pause"
    reason: _Told
    by: _Told | None = None


class AskLift(_Asked):
    """A halt holds no longer."""

    do: Literal["lift"]
    id: _Name
    reason: _Told = ""
    by: _Told | None = None


class AskList(_Asked):
    """The halts there are."""

    do: Literal["list"]
    lifted: bool = False


Asking: TypeAlias = Annotated[AskHalt | AskLift | AskList, Field(discriminator="do")]
_asking: TypeAdapter[AskHalt | AskLift | AskList] = adapter(Asking)


def halt_json(halt: Halt) -> Json:
    """A halt as programs see it."""
    return cast("Json", _halts.dump_python(halt, mode="json"))


def halt_from(body: Any) -> Halt:
    """A halt as `halt_json` wrote it."""
    return _halts.validate_python(body)


class Acting:
    """One store, as an operator reaches it; works whatever other processes are doing."""

    def __init__(self, store: Path, *, sign: Sign | None = None, verify: Verify | None = None, token: str = "") -> None:
        self.path = store
        own = [exactly("token", token)] if token else []  # whatever it looks like
        self._store = RedactedStore(store, *own, looks_only=True)
        self._sign = sign
        self._verify = verify

    def close(self) -> None:
        """Let go of the store."""
        self._store.close()

    def answer(self, asked: Any, route: str) -> Json:
        """Carry out one request; what goes wrong is part of the answer."""
        try:
            request = _asking.validate_python(asked)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"]))
            return failed(Misuse(f"{where or 'the request'}: {first['msg']}", hint="ask for halt, lift or list"))
        try:
            return self._do(request, route)
        except StandfastError as error:
            return failed(error)

    def _do(self, request: AskHalt | AskLift | AskList, route: str) -> Json:
        if isinstance(request, AskHalt):
            wanted = wanted_halt(
                request.id or RandomIds().halt(),
                agent=request.agent,
                labels=request.labels,
                all=request.all,
                then=request.then,
                reason=request.reason,
                by=request.by,
            )
            asked = moment(time.time())
            return self._told(
                lambda tx: set_halt(tx, wanted, known_dead, sign=self._sign, route=route, asked=asked), "control"
            )
        if isinstance(request, AskLift):
            id_, by, reason = request.id, request.by, request.reason
            return self._told(
                lambda tx: lift_halt(tx, id_, by=by, reason=reason, sign=self._sign, route=route), "ordinary"
            )
        found: list[Halt] = []
        if self._store.exists():
            found = self._store.read(lambda tx: halts_in(tx, lifted=request.lifted, verify=self._verify))
        return {"ok": True, "pid": os.getpid(), "halts": [halt_json(halt) for halt in found]}

    def _told(self, act: Callable[[Tx], Halt], use: Use) -> Json:
        return {"ok": True, "pid": os.getpid(), "halt": halt_json(self._write(act, use))}

    def _write(self, act: Callable[[Tx], T], use: Use) -> T:
        """A halt does not give up because others write a lot; only a lock that nobody lets go of keeps it out."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                self._store.create()
                return self._store.write(act, use)
            except StoreBusy:
                if time.monotonic() > until:
                    raise
                time.sleep(0.02)


def failed(error: StandfastError) -> Json:
    """What went wrong, as an answer."""
    return {"ok": False, "error": type(error).__name__, "detail": error.message, "hint": error.hint}
