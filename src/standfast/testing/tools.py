"""Running a tool's plain function in a unit test, without a run."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from standfast.bodies.threads import Token
from standfast.context import current_call
from standfast.errors import Misuse
from standfast.records import Channel, Spent


class ToolContext:
    """What a tool's body said and spent."""

    in_process_tool = False
    run_id = "test-run"

    def __init__(self, key: str, provide: Mapping[type[Any], Any]) -> None:
        self.key = key
        self.said = ""
        self.spent = Spent()
        self.progressed: list[tuple[float, str]] = []
        self.heard: tuple[int, bool] | None = None
        self.retried: list[str] = []
        self.stop_token = Token()
        self._provide = provide

    def begin_program(self, *, clean_up: bool = False) -> str:  # noqa: ARG002 - nobody cuts it
        """A unit test sees to its programs itself."""
        return ""

    def pieces(self) -> None:
        """Nor does anybody stop its threads."""

    @property
    def time_left(self) -> None:
        """Nor its tasks."""

    def use(self, type_: type[Any]) -> Any:
        try:
            return self._provide[type_]
        except KeyError:
            raise Misuse(f"no {type_.__name__} was given", hint="tool_context(provide={...})") from None

    def say(self, text: str, channel: Channel = "text") -> None:
        if channel == "text":
            self.said += text

    def spend(self, input_tokens: int, output_tokens: int, cost: float) -> None:
        self.spent.input_tokens += input_tokens
        self.spent.output_tokens += output_tokens
        self.spent.cost += cost

    def progress(self, fraction: float, text: str) -> None:
        self.progressed.append((fraction, text))

    def begin_anew(self) -> None:
        self.said = ""

    def hear(self, tokens: int, *, estimated: bool, just_now: bool = True) -> None:  # noqa: ARG002 - of the protocol
        self.heard = (tokens, estimated)

    def byte_came(self) -> None:
        """Nobody asks a unit test when."""

    async def wait_before_retry(self, seconds: float, why: str, tries: int) -> bool:
        """A unit test waits for nobody."""
        del seconds, tries
        self.retried.append(why)
        return True


@contextmanager
def tool_context(
    key: str = "test-key", provide: Mapping[type[Any], Any] | None = None
) -> Generator[ToolContext, None, None]:
    """Inside this block, `idempotency_key()`, `use()`, `say()` and their like work as in a call."""
    context = ToolContext(key, provide or {})
    token = current_call.set(context)
    try:
        yield context
    finally:
        current_call.reset(token)
