"""What the providers have in common: an SDK's client, one stream a request, and its events read into deltas."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from inspect import signature
from typing import Any, Protocol, cast

from pydantic import JsonValue
from pydantic_core import PydanticSerializationError, to_json

from standfast.errors import Misuse
from standfast.models.sdk_errors import Sdk, cut_short, in_our_words
from standfast.models.sync_streams import SyncStream
from standfast.records import Json
from standfast.replies import Delta, Dialect, Finished, Request, Usage

BREATH = 0.005  # seconds: a burst of events lets others run, and a cancel arrive, so often

Price = tuple[float, float]


class Reader(Protocol):
    """Makes deltas of the events of one stream, and a message of them all."""

    begun: bool  # has anything of the protocol come?
    ended: bool  # has the provider said that the answer is whole?

    def read(self, event: Any) -> Sequence[Delta]: ...

    def finished(self) -> Finished: ...


class SdkProvider(ABC):
    """A model behind a provider's own SDK. Implements abc.Provider."""

    dialect: Dialect
    rest_seconds = 0.1  # how long the end of the connection may lag behind the end of the answer

    def __init__(self, name: str, sdk: Sdk, client: Any, price: Price | None, options: Json) -> None:
        if not str(name).strip():
            raise Misuse(f"{name!r} is no name of a model", hint=f"give the name that {sdk.name} knows it by")
        self.name = name
        self.cannot_cut = ""  # why a request could not be cut, if one could not
        self._sdk = sdk
        self._given = client
        self._made: dict[asyncio.AbstractEventLoop, tuple[Any, Any]] = {}  # the client, and what closes it
        self._named: frozenset[str] | None = None  # the arguments that the SDK's method names
        self._price = _checked_price(price)
        self._options = options
        self._check_options(options)

    # --- what differs ------------------------------------------------------------------------------

    @abstractmethod
    def _new_client(self) -> Any:
        """The SDK's default client: keys and base_url from the environment."""

    @abstractmethod
    def _create(self, client: Any) -> Any:
        """The SDK's method that asks."""

    @abstractmethod
    def _body(self, request: Request) -> dict[str, Any]:
        """The request in the provider's words, without options."""

    @abstractmethod
    def _reader(self, url: str) -> Reader: ...

    reserved: frozenset[str] = frozenset({"messages", "model", "stream", "stream_options"})

    # --- abc.Provider ------------------------------------------------------------------------------

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncGenerator[AsyncIterator[Delta]]:
        """Ask, and read the answer as it comes; the connection is closed when the block is left, however it is."""
        self._check_options(request.options)
        client = await self._client()
        url = _shown_url(client)
        async with self._asked(client, self._arguments(client, request), url) as (response, events):
            content_type = str(response.headers.get("content-type", ""))
            async with aclosing(self._deltas(events, url, content_type)) as deltas:
                yield deltas

    # --- asking --------------------------------------------------------------------------------------

    async def _client(self) -> Any:
        given = self._given
        if given is None:
            loop = asyncio.get_running_loop()
            if loop not in self._made:
                try:
                    client = self._new_client()
                except self._sdk.base_error as error:
                    raise in_our_words(error, self._sdk, self.name, "the default client") from error
                keeper = _closed_with_the_loop(loop, client, self._made)
                self._made[loop] = client, keeper
                await anext(keeper)
            given = self._made[loop][0]
        return given.with_options(max_retries=0)  # whoever asked us retries, where people can see it

    def _arguments(self, client: Any, request: Request) -> dict[str, Any]:
        """What the SDK names goes by name; what it does not is sent in the body as it is."""
        given: dict[str, Any] = {**self._options, **request.options}
        tools = given.pop("tools", ())
        body = {**self._defaults(), **given, **self._body(request)}
        if tools:  # the provider's own, beside ours
            body["tools"] = [*body.get("tools", ()), *tools]
        if self._named is None:
            self._named = frozenset(signature(self._create(client)).parameters)
        unnamed = {name: body.pop(name) for name in [*body] if name not in self._named}
        if unnamed:
            body["extra_body"] = {**unnamed, **body.get("extra_body", {})}
        return body

    def _defaults(self) -> dict[str, Any]:
        return {}

    def _check_options(self, options: Json) -> None:
        for name in sorted(self.reserved & options.keys()):
            raise Misuse(f"{name}= is not an option of {self.name}", hint="standfast sets it; leave it out")

    @asynccontextmanager
    async def _asked(self, client: Any, arguments: dict[str, Any], url: str) -> AsyncGenerator[tuple[Any, Any]]:
        if not is_async(client):
            async with self._asked_in_a_thread(client, arguments, url) as asked:
                yield asked
            return
        try:
            opened = await self._create(client)(**arguments)
        except self._sdk.expected() as error:
            raise in_our_words(error, self._sdk, self.name, url) from error
        async with opened, aclosing(aiter(opened)) as events:
            yield opened.response, events

    @asynccontextmanager
    async def _asked_in_a_thread(
        self, client: Any, arguments: dict[str, Any], url: str
    ) -> AsyncGenerator[tuple[Any, Any]]:
        arguments["extra_headers"] = {"Connection": "close", **arguments.get("extra_headers", {})}
        stream = SyncStream(client, lambda client: self._create(client)(**arguments))
        try:
            try:
                response = await stream.open()
            except self._sdk.expected() as error:
                raise in_our_words(error, self._sdk, self.name, url) from error
            yield response, stream
        finally:
            try:
                await stream.close()
            finally:
                self.cannot_cut = stream.cannot_cut

    # --- reading -------------------------------------------------------------------------------------

    async def _deltas(self, events: AsyncIterator[Any], url: str, content_type: str) -> AsyncGenerator[Delta]:
        reader = self._reader(url)
        clock = asyncio.get_running_loop().time
        breath = clock() + BREATH
        try:
            async for event in events:
                for delta in reader.read(event):
                    yield delta
                if reader.ended:
                    break
                if clock() > breath:
                    await asyncio.sleep(0)
                    breath = clock() + BREATH
        except self._sdk.expected() as error:
            raise in_our_words(error, self._sdk, self.name, url) from error
        if not reader.ended:
            raise cut_short(self.name, url, content_type, begun=reader.begun)
        for delta in await self._rest(events, reader):
            yield delta
        yield _storable(reader.finished())

    async def _rest(self, events: AsyncIterator[Any], reader: Reader) -> list[Delta]:
        """What comes after the end of the answer: a count, perhaps, and the end that lets the connection be reused."""
        found: list[Delta] = []
        try:
            async with asyncio.timeout(self.rest_seconds):
                async for event in events:
                    found.extend(reader.read(event))
        except self._sdk.expected():  # a TimeoutError is an OSError
            pass  # the answer is whole: what breaks after it takes nothing from it
        return found

    def _usage(self, given: int | None, said: int | None) -> Usage:
        tokens = given or 0, said or 0
        return Usage(*tokens, cost=self.cost(*tokens))

    def cost(self, input_tokens: int, output_tokens: int) -> float:
        """What so many tokens cost, by the price that was given."""
        given, said = self._price or (0.0, 0.0)
        return (input_tokens * given + output_tokens * said) / 1_000_000


def is_async(client: Any) -> bool:
    """SDK clients are context managers of the kind they are."""
    return hasattr(client, "__aenter__")


def check_client(client: Any, method: str, sdk: str) -> None:
    """Misuse if this is no client of that SDK."""
    if client is None:
        return
    if not hasattr(client, "with_options") or not hasattr(client, method):
        raise Misuse(
            f"client={client!r} is no client of the {sdk} SDK", hint=f"give an object of the {sdk} package's clients"
        )


def readable(text: str) -> str:
    """Text without half characters, which JSON may name but nothing can store."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _storable(finished: Finished) -> Finished:
    try:
        to_json(finished.message)
    except (PydanticSerializationError, UnicodeEncodeError):
        return Finished(cast("Json", _readable_json(finished.message)), finished.stop)
    return finished


def _readable_json(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return readable(value)
    if isinstance(value, list):
        return [_readable_json(one) for one in value]
    if isinstance(value, dict):
        return {readable(name): _readable_json(one) for name, one in value.items()}
    return value


async def _closed_with_the_loop(
    loop: asyncio.AbstractEventLoop, client: Any, made: dict[asyncio.AbstractEventLoop, tuple[Any, Any]]
) -> AsyncGenerator[None]:
    """Event loops close their open async generators before they end: the one hook they offer for that moment."""
    try:
        yield
    finally:
        made.pop(loop, None)
        await client.close()


def _checked_price(price: Any) -> Price | None:
    if price is None:
        return None
    try:
        given, said = price
        checked = float(given), float(said)
    except (TypeError, ValueError) as error:
        raise Misuse(
            f"price={price!r} is no price", hint="give (for a million input tokens, for a million output tokens)"
        ) from error
    if min(checked) < 0:
        raise Misuse(f"price={price!r} is negative", hint="a budget only counts up")
    return checked


def _shown_url(client: Any) -> str:
    """Where requests go, without a password that may be in it."""
    url = client.base_url
    return str(url.copy_with(username=None, password=None) if url.userinfo else url).rstrip("/")
