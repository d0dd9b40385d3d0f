"""A model call is a call like any other: gate, journal, key, usage into the budget, cut at once by a stop."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from copy import copy
from hashlib import sha256
from typing import Any, TypeGuard, cast, overload

from pydantic_core import from_json

from standfast import arguments
from standfast.abc import Priced, Provider
from standfast.codec import canonical, to_json
from standfast.context import ModelContext, current_call, run_salt
from standfast.errors import Misuse, NotStorable, OutsideACall
from standfast.log import Log
from standfast.records import Json
from standfast.replies import (
    Counted,
    Delta,
    Dialect,
    Finished,
    ProviderError,
    Reasoning,
    Reply,
    Request,
    Text,
    ToolCall,
    ToolCallPart,
    Usage,
)
from standfast.tools import Call, Tool
from standfast.tripwire import Tripwire
from standfast.usable import Usable, usables

RETRIES = 4
FIRST_RETRY = 0.5
LONGEST_RETRY = 60.0
MOST_CHARACTERS = 4_000_000  # of one reply
SHOWN_BYTES = 4096  # of a request, in the record; more is stored as a digest
CHARACTERS_A_TOKEN = 4  # for estimates


class Model:
    """A model, for people's own loops and for LLMAgent: `await run.call(m(log, tools=[...]))`."""

    def __init__(self, provider: Provider, *, retries: int = RETRIES, most_characters: int = MOST_CHARACTERS) -> None:
        self._provider = provider
        self._retries = retries
        self._most_characters = most_characters
        name = "_".join(arguments.text("a model's name", provider.name).split()) or "model"
        self._tool: Tool[..., Reply] = Tool(self._perform, effect="read", kind="model", name=name)

    @property
    def name(self) -> str:
        """The model, as people know it."""
        return self._provider.name

    @property
    def dialect(self) -> Dialect:
        """The shape of the messages it takes and gives."""
        return self._provider.dialect

    def __call__(
        self,
        log: Sequence[Any] | str,
        tools: Iterable[Any] = (),
        system: str = "",
        *,
        tripwire: Tripwire | None = None,
        **options: Any,
    ) -> Call[Reply]:
        """The call that asks for the next message. `log` holds messages in the provider's own shape, or is a text.

        A `tripwire` watches the answer for `system` coming out.
        """
        arguments.text("system", system)
        offered = usables(tools)
        now = _as_it_is(log, self.name)
        try:
            asked = {
                "model": self.name,
                "messages": _shown_log(now),
                "tools": [one.name for one in offered],
                "system": _salted(system) if system else "",  # instructions are no part of the record
                "options": options,
            }
            raw = canonical(to_json(asked))
        except Exception as error:
            raise NotStorable(
                f"the messages or options of {self.name} cannot be stored: {error}", hint="give JSON values"
            ) from error
        call = Call(self._tool, {"request": _Asked(now, offered, system, options)}, raw)
        if tripwire is not None:
            call.guard = _tripwire(tripwire).over(system, Messages(now))
        return call

    async def _perform(self, request: Any) -> Reply:
        asked: _Asked = request
        context = current_call.get()
        if context is None:
            raise OutsideACall(f"{self.name} was asked outside a call", hint="await run.call(m(log))")
        listening = cast("ModelContext", context)
        prompt = asked.request(listening.planted)
        tries = 0
        while True:
            answer = _Answer(listening, prompt, self._provider, self._most_characters)
            try:
                return await self._listen(prompt, answer)
            except ProviderError as error:
                if not error.passing or tries >= self._retries:
                    raise
                seconds = _pause_before(tries, error)
                tries += 1
                why = f"{error.trouble.replace('_', ' ')}" + (f" ({error.status})" if error.status else "")
                if not await listening.wait_before_retry(seconds, why, tries):
                    raise
                listening.begin_anew()

    async def _listen(self, prompt: Request, answer: _Answer) -> Reply:
        try:
            async with self._provider.stream(prompt) as deltas:
                async for delta in deltas:
                    answer.take(delta)
            return answer.whole(self._provider.dialect)
        finally:  # also of a stream that was cut or has died: its tokens were spent
            answer.count()


def _tripwire(given: object) -> Tripwire:
    if not isinstance(given, Tripwire):
        raise Misuse(f"tripwire={given!r} is no tripwire", hint="give Tripwire(...), or leave it out for none")
    return given


def _as_it_is(log: Any, model: str) -> Sequence[Any]:
    """The messages as they are now: what is added later is no part of the request."""
    if isinstance(log, str):
        return [{"role": "user", "content": log}]
    if not _is_sequence(log):
        raise Misuse(f"{model} was given {log!r}", hint="give it a Log or a list of messages, or a text")
    return copy(log)


def _is_sequence(given: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(given, Sequence)


class _Asked:
    """A request whose log is read only when it is performed: a call found in the journal reads nothing."""

    def __init__(self, log: Sequence[Any], tools: list[Usable], system: str, options: Json) -> None:
        self._log = log
        self._tools = tools
        self._system = system
        self._options = options

    def request(self, planted: str) -> Request:
        system = "\n\n".join(filter(None, (self._system, planted)))
        return Request(Messages(self._log), [one.spec for one in self._tools], system, self._options)


class Messages(Sequence[Json]):
    """The messages of a log as plain JSON, read when somebody looks."""

    def __init__(self, log: Sequence[Any]) -> None:
        self._log = log
        self._read: list[Json] | None = None

    def raw(self) -> list[bytes]:
        """Each message as JSON text."""
        return self._log.rows() if isinstance(self._log, Log) else [to_json(message) for message in self._log]

    def _all(self) -> list[Json]:
        read = self._read
        if read is None:
            read = self._read = cast("list[Json]", from_json(b"[" + b",".join(self.raw()) + b"]"))
        return read

    def __len__(self) -> int:
        return len(self._log)

    @overload
    def __getitem__(self, index: int) -> Json: ...
    @overload
    def __getitem__(self, index: slice) -> list[Json]: ...
    def __getitem__(self, index: int | slice) -> Json | list[Json]:
        return self._all()[index]


class _Answer:
    """A reply that is coming in: shown as it comes, counted whatever becomes of it."""

    def __init__(self, context: ModelContext, prompt: Request, provider: Provider, most: int) -> None:
        self._context = context
        self._prompt = prompt
        self._provider = provider
        self._model = provider.name
        self._most = most
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: dict[int, ToolCall] = {}
        self._characters = 0
        self._counted: Usage | None = None
        self._finished: Finished | None = None

    def take(self, delta: Delta) -> None:
        """Show one delta, and keep it."""
        if isinstance(delta, Text):
            self._text.append(delta.text)
            self._heard(len(delta.text))
            self._context.say(delta.text)
        elif isinstance(delta, Reasoning):
            self._reasoning.append(delta.text)
            self._heard(len(delta.text))
            self._context.say(delta.text, "reasoning")
        elif isinstance(delta, ToolCallPart):
            self._add(delta)
            self._heard(len(delta.arguments))
            self._context.say((f"{delta.name}(" if delta.name else "") + delta.arguments, "tool_call")
        elif isinstance(delta, Counted):
            self._counted = delta.usage
        else:
            self._finished = delta

    def _add(self, part: ToolCallPart) -> None:
        old = self._calls.get(part.index, ToolCall("", "", ""))
        self._calls[part.index] = ToolCall(old.id or part.id, old.name or part.name, old.arguments + part.arguments)

    def _heard(self, characters: int) -> None:
        self._characters += characters
        self._context.hear(self._tokens_so_far(), estimated=True)
        if self._characters > self._most:
            raise ProviderError(
                f"the answer of {self._model} is longer than {self._most} characters; it was cut there",
                trouble="refused",
                hint="what came is kept in the transcript; ask for less, or give the model most_characters=...",
            )

    def _tokens_so_far(self) -> int:
        return max(self._characters // CHARACTERS_A_TOKEN, 1)

    def usage(self) -> Usage:
        """As the provider counted, or an estimate: a stream that was cut has no last word."""
        counted = self._counted
        if counted is not None and self._finished is not None:
            return counted
        asked = sum(map(len, self._prompt.messages.raw())) if isinstance(self._prompt.messages, Messages) else 0
        known = counted or Usage()
        given = known.input_tokens or (asked + len(self._prompt.system)) // CHARACTERS_A_TOKEN
        came = max(known.output_tokens, self._tokens_so_far() if self._characters else 0)
        cost = self._provider.cost(given, came) if isinstance(self._provider, Priced) else known.cost
        return Usage(given, came, cost, estimated=True)

    def count(self) -> None:
        """Into the run's budget."""
        usage = self.usage()
        if self._finished is None and not self._characters and self._counted is None:
            return  # nothing came: a provider that did not answer costs nothing
        self._context.hear(usage.output_tokens, estimated=usage.estimated, just_now=False)
        self._context.spend(usage.input_tokens, usage.output_tokens, usage.cost)

    def whole(self, dialect: Dialect) -> Reply:
        """The reply, if all of it came."""
        if self._finished is None:
            raise ProviderError(
                f"the stream of {self._model} ended before its answer did",
                trouble="connection",
                hint="what came is kept in the transcript; resume asks again",
            )
        return Reply(
            text="".join(self._text),
            message=self._finished.message,
            tool_calls=tuple(self._calls[index] for index in sorted(self._calls)),
            usage=self.usage(),
            reasoning="".join(self._reasoning),
            stop=self._finished.stop,
            dialect=dialect,
        )


def _pause_before(tries: int, error: ProviderError) -> float:
    if error.retry_after is not None:
        return min(max(error.retry_after, 0.0), LONGEST_RETRY)
    return min(FIRST_RETRY * 2.0**tries, LONGEST_RETRY) * random.uniform(0.75, 1.25)


def _shown_log(log: Sequence[Any]) -> Json:
    """The messages as the record shows them: where they are, what was added; long ones by their digest."""
    if isinstance(log, Log):
        where, added = log.place()
    else:
        where, added = [], [to_json(message) for message in log]
    if sum(map(len, added)) <= SHOWN_BYTES:
        return {"log": where, "added": [from_json(body) for body in added]}
    return {"log": where, "count": len(log), "digest": _digest(*added)}


def _salted(system: str) -> str:
    """The same for the same instructions in one run; nobody who guesses them can try it out on the record."""
    return _digest(run_salt.get().encode(), system.encode())


def _digest(*parts: bytes) -> str:
    digest = sha256()
    for part in parts:
        digest.update(b"%d:" % len(part))
        digest.update(part)
    return digest.hexdigest()
