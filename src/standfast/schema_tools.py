"""Tools made at run time from a JSON schema, where no Python signature exists to read."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, NoReturn, TypeVar, cast

from pydantic_core import PydanticSerializationError, from_json, to_json

from standfast.codec import Codec, storable
from standfast.declaration import check_declaration
from standfast.errors import BadTool, Misuse, NotStorable
from standfast.json_values import canonical, is_object, not_finite, short
from standfast.records import Effect, Json, Settles
from standfast.schema_checks import Checker, TooMuch
from standfast.signature import Signature, bad_tool
from standfast.toolbox import Toolbox
from standfast.tools import Before, Call, Confirm, Probe, Tool, UndoFn

R = TypeVar("R")

_WORDS = ("description", "title")  # reworded, the tool is the same


class SchemaTool(Tool[..., R]):
    """A tool whose arguments a JSON schema describes. `fn(**arguments)` gets them as plain JSON.

    In all else it is a Tool: a Call only `run.call` performs, journaled, undone, asked about, compared on resume.
    """

    def __init__(
        self,
        name: str,
        description: str,
        schema: Mapping[str, Any],
        fn: Callable[..., Any],
        *,
        effect: Effect = "write",
        result: Any = Any,
        result_schema: Json | None = None,
        toolbox: Toolbox | None = None,
        before: Before | None = None,
        undo: UndoFn | None = None,
        settles: Settles = "step",
        probe: Probe | None = None,
        confirm: Confirm = None,
        retries: int = 0,
        timeout: float | None = None,
        grace: float = 2.0,
        kind: str = "tool",
    ) -> None:
        self._result_type = result
        self._toolbox = toolbox
        self._gone = False
        self._described: tuple[str, Json, Json | None] = (description, {}, None)
        super().__init__(
            fn,
            effect=effect,
            before=before,
            undo=undo,
            settles=settles,
            probe=probe,
            confirm=confirm,
            retries=retries,
            timeout=timeout,
            grace=grace,
            kind=kind,
            name=name,
        )
        self.describe(description, schema, result_schema=result_schema)

    def _read(self) -> Signature:
        return _SchemaSignature(self.fn, self.name, self._result_type)

    # --- what may change ------------------------------------------------------------------------

    def describe(
        self,
        description: str,
        schema: Mapping[str, Any],
        *,
        effect: Effect | None = None,
        result_schema: Json | None = None,
    ) -> None:
        """Take what the tool is described as now; BadTool if its schema is none."""
        checked = _checked(self.name, schema)
        if effect is not None and effect != self.effect:
            before, self.effect = self.effect, effect
            try:
                check_declaration(self)
            except BadTool:
                self.effect = before
                raise
            self.__dict__.pop("inline", None)
        self._described = description, checked, result_schema
        self._checker = Checker(checked, any_draft=True)
        self._gone = False

    def vanish(self) -> None:
        """Its toolbox no longer has it."""
        self._gone = True

    @property
    def toolbox(self) -> Toolbox | None:
        return self._toolbox

    @property
    def gone(self) -> bool:
        return self._gone

    @property
    def description(self) -> str:
        """What it does, in the words a model reads."""
        return self._described[0]

    @property  # it may change, so it is not cached
    def schema(self) -> Json:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The JSON schema of the arguments, with the description."""
        description, schema, _ = self._described
        return {**schema, "title": self.name, **({"description": description} if description else {})}

    @property
    def result_schema(self) -> Json:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The JSON schema of the result."""
        given = self._described[2]
        return self._result.schema if given is None else given

    @property
    def contract(self) -> Json:
        """What must not change under a run that is resumed."""
        schema = {key: value for key, value in self._described[1].items() if key not in _WORDS}
        return {"name": self.name, "effect": self.effect, "schema": schema, "result_schema": self.result_schema}

    def same_code(self, other: Tool[..., Any]) -> bool:
        """Is the other one this tool, made anew from the same place and the same schema?"""
        same_place = self.toolbox is other.toolbox and self.contract == other.contract
        return same_place and super().same_code(other)

    # --- arguments --------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Call[R]:
        """The call, not yet performed; Misuse names an argument that does not fit."""
        if args:
            raise Misuse(
                f"{self.name} takes its arguments by name only, but was given {args[0]!r}",
                hint=f"its arguments are {self._argument_names()}",
            )
        return self.parse(kwargs)

    def parse(self, args: Mapping[str, Any] | str | bytes) -> Call[R]:
        """The call with arguments from JSON, as a model or a person gives them; Misuse names a bad one."""
        raw = self._written(args)
        try:
            given = from_json(raw or b"{}")
        except ValueError as error:
            self._refuse(f"this is no JSON: {short(str(error), 120)}")
        if not is_object(given):
            self._refuse(f"the arguments must be an object, not {short(to_json(given).decode(), 80)}")
        if (path := not_finite(given)) is not None:
            self._refuse(f"argument {path}: NaN and infinity are not JSON")
        self._validate(given)
        raw = canonical(to_json(given))
        return Call(self, from_json(raw), raw)

    def _written(self, args: Mapping[str, Any] | str | bytes) -> bytes:
        try:
            if isinstance(args, str):
                return args.encode()
            return args if isinstance(args, bytes) else storable(dict(args))
        except (NotStorable, ValueError, TypeError) as error:
            self._refuse(short(error.message if isinstance(error, NotStorable) else str(error), 160))

    def _validate(self, given: dict[str, Any]) -> None:
        import referencing.exceptions  # noqa: PLC0415 - takes 100 ms, and only these tools need it

        try:
            error = self._checker.error(given)
        except TooMuch as much:
            self._refuse(f"they cannot be checked: {much}")
        except referencing.exceptions.Unresolvable as missing:
            raise bad_tool(
                self.name, f"its schema refers to {missing.ref!r}, which is not in it", "its author must repair it"
            ) from missing
        if error is not None:
            path = ".".join(str(part) for part in error.absolute_path)
            self._refuse(f"{f'argument {path}: ' if path else ''}{short(error.message, 160)}")

    def _refuse(self, why: str) -> NoReturn:
        raise Misuse(
            f"{self.name} cannot be called so: {why}",
            hint=f"its arguments are {self._argument_names()}; see the tool's .schema",
        )

    def _argument_names(self) -> str:
        properties = self._described[1].get("properties")
        return ", ".join(properties) if is_object(properties) and properties else "none"

    def dump_args(self, args: Mapping[str, Any]) -> bytes:
        """The arguments as canonical JSON."""
        try:
            return canonical(storable(dict(args)))
        except NotStorable as error:
            raise self._not_storable(error, "arguments") from error

    def load_args(self, raw: bytes) -> dict[str, Any]:
        """The arguments again, whatever the schema says by now: they may have been given under an older one."""
        return cast("dict[str, Any]", from_json(raw))


class _SchemaSignature(Signature):
    """What of a signature a schema leaves to the function: is it async, and what does it return?"""

    def __init__(self, fn: Callable[..., Any], name: str, result: Any) -> None:
        self._fn = fn
        self._name = name
        self.hints = {}
        self.positional, self.names, self.defaults = [], {}, {}
        self.returns = result
        self.is_async = inspect.iscoroutinefunction(fn)
        self.arguments = Codec[dict[str, Any]](dict[str, Any])
        self.argument_schema = {}
        self.result = self._codec(result, "its result")


def _checked(name: str, schema: Mapping[str, Any]) -> Json:
    """A copy of the schema of an object; BadTool if it is something else."""
    import jsonschema  # noqa: PLC0415

    untyped: Any = jsonschema
    try:
        plain: Any = from_json(to_json(deepcopy(dict(schema))))
        kind = untyped.validators.validator_for(plain, default=untyped.Draft202012Validator)
        kind.check_schema(plain)
    except (PydanticSerializationError, TypeError, ValueError) as error:
        raise bad_tool(
            name, f"its schema is none: {short(str(error), 160)}", "give a JSON schema, as a dict"
        ) from error
    except untyped.exceptions.SchemaError as error:
        raise bad_tool(
            name, f"its schema is none: {short(error.message, 160)}", "give a valid JSON schema of its arguments"
        ) from error
    if plain.get("type", "object") != "object":
        raise bad_tool(
            name, f"its schema is of type {plain['type']!r}", 'arguments have names: "type" must be "object"'
        )
    return cast("Json", {"type": "object", **plain})
