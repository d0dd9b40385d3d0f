"""What a tool's function says of itself: its parameters, their types and defaults, and its result."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NoReturn, NotRequired, cast, get_args, get_origin, get_type_hints

from pydantic import ConfigDict
from typing_extensions import TypedDict

from standfast.codec import Codec, from_json
from standfast.errors import BadTool, NotStorable
from standfast.records import Json


def bad_tool(name: str, why: str, hint: str) -> BadTool:
    """The error of a tool that could not keep what it declares."""
    return BadTool(f"tool {name}: {why}", hint=hint)


class Signature:
    """A function as it was read; BadTool if its arguments or its result could not be stored."""

    def __init__(self, fn: Callable[..., Any], name: str, before: Callable[..., Any] | None) -> None:
        self._fn = fn
        self._name = name
        self.hints = self._type_hints()
        self.positional: list[str] = []  # the names that may be given by position
        self.names: dict[str, None] = {}  # all names, in order
        self.defaults: dict[str, Any] = {}
        self._read_parameters()
        if before is not None:
            self._check_before(before)
        self.returns: Any = self.hints.pop("return", Any)
        self.is_async = inspect.iscoroutinefunction(fn)
        if get_origin(self.returns) in (Awaitable, Coroutine):  # a plain function that hands out a coroutine
            self.is_async, self.returns = True, get_args(self.returns)[-1]
        types = {name: self.hints.get(name, Any) for name in self.names}
        self.arguments = self._argument_codec(types)
        self.argument_schema = self._schema_with_defaults(types)
        self.result = self._codec(Any if self.returns is NoReturn else self.returns, "its result")

    def _read_parameters(self) -> None:
        for parameter in inspect.signature(self._fn).parameters.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
                raise self._bad(
                    f"parameter {parameter} has no name that arguments could be stored by",
                    "name every parameter; no *args, **kwargs or positional-only ones",
                )
            self.names[parameter.name] = None
            if parameter.kind is not parameter.KEYWORD_ONLY:
                self.positional.append(parameter.name)
            if parameter.default is not parameter.empty:
                self.defaults[parameter.name] = parameter.default

    def _check_before(self, before: Callable[..., Any]) -> None:
        try:
            inspect.signature(before).bind(**self.names)
        except TypeError as error:
            names = ", ".join(self.names)
            raise self._bad(
                f"before= does not fit: {error}", f"it takes what the tool takes, by name: {names}"
            ) from error
        except ValueError:  # it does not say what it takes
            return

    def _type_hints(self) -> dict[str, Any]:
        try:
            return get_type_hints(self._fn, include_extras=True)
        except NameError as error:
            raise self._bad(
                f"its annotations name {error.name!r}, which is not known in module {self._fn.__module__}",
                "define the type at module level, before the tool, and not under TYPE_CHECKING",
            ) from error
        except TypeError as error:
            raise self._bad(f"its annotations cannot be read: {error}", "use types that Python can evaluate") from error

    def _argument_codec(self, types: dict[str, Any]) -> Codec[dict[str, Any]]:
        for name, type_ in types.items():
            self._codec(type_, f"parameter {name}")
        optional = {name: NotRequired[types[name]] for name in self.defaults}
        # A dict by name, and not a model: any parameter name will do.
        make_typed_dict: Any = TypedDict
        arguments = make_typed_dict(self._name, {**types, **optional})
        arguments.__pydantic_config__ = ConfigDict(extra="forbid")
        return self._codec(arguments, "its arguments")

    def _schema_with_defaults(self, types: dict[str, Any]) -> Json:
        schema = {**self.arguments.schema, "title": self._name}
        properties = cast("dict[str, Any]", schema.setdefault("properties", {}))
        for name, default in self.defaults.items():
            try:
                properties[name] = {**properties[name], "default": from_json(Codec[Any](types[name]).dump(default))}
            except NotStorable as error:
                raise self._bad(
                    f"the default of {name} is not of its type: {error.message}",
                    f"annotate it as what it is, say {name}: ... | None" if default is None else "change one of them",
                ) from error
        return schema

    def _codec(self, type_: Any, what: str) -> Codec[Any]:
        try:
            codec = Codec[Any](type_)
            codec.schema  # noqa: B018 - found now, not in the middle of a run
        except NotStorable as error:
            raise self._bad(f"{what} cannot be stored: {error.message}", error.hint) from error
        return codec

    def _bad(self, why: str, hint: str) -> BadTool:
        return bad_tool(self._name, why, hint)
