"""What all commands have in common: where the runs are, who acts, how the answer is shown."""

from __future__ import annotations

import asyncio
import getpass
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem
from pydantic_core import from_json, to_json

from standfast.cli.access import Access, Opened, matching
from standfast.cli.codes import Unreachable
from standfast.cli.placing import place_options
from standfast.cli.saying import tell, tell_json
from standfast.errors import Misuse, StandfastError
from standfast.records import Json

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

STORE = Path("runs.db")


def me() -> str:
    """Who acts, unless --by says otherwise: the name this system knows the person by."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container without a name for its user
        return f"uid {os.getuid()}"


@dataclass(frozen=True, slots=True)
class Place:
    """Where the runs are, and how the answer is shown."""

    store: Path = STORE
    url: str | None = None
    token: str | None = None
    insecure: bool = False
    by: str | None = None
    json: bool = False

    def open(self) -> Opened:
        """The way to the runs."""
        if self.url is not None:
            if self.by is not None:
                raise Misuse("a server knows who acts by the token", hint="leave --by out")
            from standfast.cli import remote  # noqa: PLC0415 - http and TLS, for runs behind a server only

            return remote.opened(self.url, self.token, insecure=self.insecure)
        from standfast.cli import local  # noqa: PLC0415 - the runtime, for runs in a file only

        return local.opened(self.store.absolute(), self.by or me(), shown=self.store)

    def do(self, act: Callable[[Access], Awaitable[T]]) -> T:
        """Do something with the runs, from beginning to end."""

        async def through() -> T:
            async with self.open() as access:
                return await act(access)

        return asyncio.run(through())

    def show(self, body: Any, lines: Callable[[], list[str]]) -> None:
        """The answer: JSON if that was asked for, else words."""
        if self.json:
            say_json(body)
        else:
            for line in lines():
                tell(line)


def say_json(body: Any) -> None:
    """One JSON value on a line of its own."""
    tell_json(to_json(body, inf_nan_mode="null").decode())


def _token(file: Path | None) -> str | None:
    """From a file or the environment; never from the command line, where every process could read it."""
    if file is None:
        return os.environ.get("STANDFAST_TOKEN") or None
    try:
        token = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Unreachable(
            f"the token file {file} cannot be read: {error}", hint="give a file with the token in it"
        ) from error
    if not token or "\n" in token:
        raise Misuse(f"{file} holds no token", hint="the token is all there should be in the file")
    return token


def reaching(command: F) -> F:
    """A command on runs: --store, or --url with a token; --by; --json. It gets them as `place`."""

    def wrapped(**given: Any) -> Any:
        url, store = given.pop("url"), given.pop("store")
        if url is not None and store is not None:
            raise click.UsageError("--store and --url are two places: give one of them")
        if url is None and store is None:
            url = os.environ.get("STANDFAST_URL") or None
        named = store or Path(os.environ.get("STANDFAST_STORE") or STORE)
        place = Place(
            store=named,
            url=url,
            token=_token(given.pop("token_file")),
            insecure=given.pop("insecure"),
            by=given.pop("by"),
            json=given.pop("as_json"),
        )
        click.get_current_context().meta["standfast.json"] = place.json
        return command(place=place, **given)

    wrapped.__name__, wrapped.__doc__ = command.__name__, command.__doc__
    wrapped.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    for option in reversed(place_options()):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[return-value]


class RunId(click.ParamType[str]):
    """A run's id, or enough of it."""

    name = "run"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        """The runs in the store; a server is not asked, and what cannot be read completes to nothing."""
        from standfast.cli import local  # noqa: PLC0415 - the runtime, for runs in a file only

        store = ctx.params.get("store") or Path(os.environ.get("STANDFAST_STORE") or STORE)
        try:
            ids = local.ids_in(store)
        except StandfastError:
            return []
        found = matching(incomplete, ids) if incomplete else ids
        return [CompletionItem(id_) for id_ in found]


run_argument = click.argument("run", type=RunId(), metavar="RUN")


class JsonText(click.ParamType[Any]):
    """JSON, as text or as @FILE."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        text = str(value)
        try:
            raw = Path(text[1:]).read_text(encoding="utf-8") if text.startswith("@") else text
        except (OSError, UnicodeDecodeError) as error:
            self.fail(f"{text[1:]} cannot be read: {error}", param, ctx)
        try:
            return from_json(raw, allow_inf_nan=False)
        except ValueError as error:
            self.fail(f"this is not JSON: {error}", param, ctx)


class JsonObject(JsonText):
    """A JSON object."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Json:
        found: Any = super().convert(value, param, ctx)
        if not isinstance(found, dict):
            self.fail("this is no JSON object: write {...}", param, ctx)
        return found  # pyright: ignore[reportUnknownVariableType]


class Label(click.ParamType[tuple[str, str]]):
    """name=value."""

    name = "label"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        name, equals, text = str(value).partition("=")
        if not name or not equals:
            self.fail("write name=value", param, ctx)
        return name, text


def text_of(given: str) -> str:
    """What a person typed; `-` reads it from standard input."""
    return sys.stdin.read().strip() if given == "-" else given
