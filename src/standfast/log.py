"""Log[T]: an append-only list of which a snapshot stores only where its rows are.

A row is the JSON of what was appended, encoded once. Appends go on in the last log id of the
snapshot; `branch()` makes them go to a new one, so that rows committed by a future that was
rewound are never overwritten.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Generic, TypeGuard, TypeVar, Union, cast, get_args, get_origin, overload

from pydantic import BaseModel, GetCoreSchemaHandler, JsonValue, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError, core_schema, from_json, to_json

from standfast.errors import NotStorable
from standfast.json_values import DEEPEST, LARGEST_VALUE, TOO_LARGE, not_finite, why_unreadable
from standfast.log_places import Book, Dumping, Fetch, Loading, LogRows, Rows

__all__ = ["LOG_MARK", "Fetch", "Log", "LogRows", "has_lost_float", "is_model", "view_of", "what_it_says"]

T = TypeVar("T")

LOG_MARK = "standfast_log"  # in the metadata of a Log's core schema


class Log(Sequence[T], Generic[T]):
    """An append-only list; what was appended is stored once and never rewritten.

    Reading gives what a new process would read: the JSON of what was appended, or an instance
    of T where T is a pydantic model or a dataclass. What is read is a copy made for this step;
    changing it changes nothing that is stored.
    """

    __slots__ = ("__orig_class__", "_book", "_cache", "_view")

    _book: Book
    _view: TypeAdapter[Any] | None  # how items are read back; None: as plain JSON
    _cache: dict[int, Any]  # items read so far, by index

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._book = Book(Rows([]), 0, (), None, None)
        self._view = None
        self._cache = {}
        self.extend(items)

    @classmethod
    def _of(cls, book: Book, view: TypeAdapter[Any] | None) -> Log[T]:
        log: Log[T] = cls.__new__(cls)
        log._book, log._view, log._cache = book, view, {}
        return log

    # --- writing ---------------------------------------------------------------------------

    def append(self, item: T) -> None:
        """Add one item, as it is now: later changes to it do not reach the Log."""
        self._book.add([self._encode(item, self._book.length)])

    def extend(self, items: Iterable[T]) -> None:
        """Add all of the items, or none if one of them cannot be stored."""
        self._book.add([self._encode(item, index) for index, item in enumerate(items, self._book.length)])

    def branch(self) -> None:
        """Let later rows go to a new log id; those there are stay where they are."""
        self._book.line = None

    def _encode(self, item: Any, index: int) -> bytes:
        view = self._known_view()
        try:
            if view is not None:
                body = view.serializer.to_json(item, warnings="error", round_trip=True, by_alias=False)
                # The serializer takes what it knows of any object and drops the rest.
                read = view.validator.validate_json(body, by_alias=True, by_name=True)
                if type(read) is not type(item):
                    raise _not_storable(index, f"it is a {type(item).__name__}, not a {type(read).__name__}")
            elif isinstance(item, BaseModel):
                # Provider SDKs build models that do not fit their own types: kept as they are.
                body = item.__pydantic_serializer__.to_json(item, warnings=False, by_alias=True)
            else:
                body = to_json(item)
        except NotStorable:
            raise
        except Exception as error:
            raise _not_storable(index, what_it_says(error)) from error
        if len(body) > DEEPEST and (why := why_unreadable(body)):
            raise _not_storable(index, why)
        if len(body) > LARGEST_VALUE:
            told = f"item {index} of the Log has {len(body):,} bytes as JSON, and {LARGEST_VALUE:,} is the most"
            raise NotStorable(told, path=str(index), hint=TOO_LARGE)
        if has_lost_float(body, item):
            raise _not_storable(index, "NaN and infinity are not JSON")
        return body

    # --- reading ---------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._book.length

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        length = self._book.length
        if isinstance(index, slice):
            return self._read(range(length)[index])
        at = index + length if index < 0 else index
        if not 0 <= at < length:
            raise IndexError(f"the Log has {length} items, none at {index}")
        return self._read(range(at, at + 1))[0]

    def __iter__(self) -> Iterator[T]:
        return iter(self._read(range(self._book.length)))

    def __eq__(self, other: object) -> bool:
        if _is_log(other):
            return list(self) == list(other)
        return list(self) == other if isinstance(other, list) else NotImplemented

    # Unhashable like a list: pydantic then copies a default, and dataclasses refuse one.
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        length = self._book.length
        if self._book.rows.absent:  # showing an object reads no store
            return f"Log({length} items)"
        shown = ", ".join(repr(item) for item in self[-3:])
        return f"Log([{'..., ' if length > 3 else ''}{shown}])"

    def __copy__(self) -> Log[T]:
        return self._of(self._book.copy(), self._known_view())

    def __deepcopy__(self, memo: dict[int, Any]) -> Log[T]:
        return self.__copy__()

    def rows(self) -> list[bytes]:
        """Every item as the JSON it is stored as."""
        return self._book.rows.all()[: self._book.length]

    def place(self) -> tuple[list[JsonValue], list[bytes]]:
        """Where the items are that a snapshot has, and those added since: names the whole without reading it."""
        return [[name, upto] for name, upto in self._book.segments], self._book.added()

    def _read(self, indices: range) -> list[T]:
        cache = self._cache
        missing = [at for at in indices if at not in cache]
        if missing:
            bodies, view = self._book.rows.all(), self._known_view()
            if view is None:
                found = from_json(b"[" + b",".join([bodies[at] for at in missing]) + b"]")
                cache.update(zip(missing, found, strict=True))
            else:
                read = view.validator.validate_json
                for at in missing:
                    try:
                        cache[at] = read(bodies[at], by_alias=True, by_name=True)
                    except ValidationError as error:
                        raise NotStorable(
                            f"item {at} of the Log does not fit its type: {what_it_says(error)}",
                            path=str(at),
                            hint="the type has changed since the item was stored; give new fields a default",
                        ) from error
        return [cache[at] for at in indices]

    def _known_view(self) -> TypeAdapter[Any] | None:
        if self._view is None and (alias := getattr(self, "__orig_class__", None)) is not None:
            self._view = view_of(get_args(alias)[0])  # made as Log[Item]()
        return self._view

    # --- as a field --------------------------------------------------------------------------

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        item = (get_args(source) or (Any,))[0]
        views: list[TypeAdapter[Any] | None] = []  # made when first needed: T may not be complete yet

        def validate(value: Any, info: core_schema.ValidationInfo) -> Log[Any]:
            if not views:
                views.append(view_of(item))
            return cls._validated(value, info.context, views[0])

        items = handler.generate_schema(item) if is_model(item) else core_schema.any_schema()
        return core_schema.with_info_plain_validator_function(
            validate,
            json_schema_input_schema=core_schema.list_schema(items),
            serialization=core_schema.plain_serializer_function_ser_schema(cls._serialized, info_arg=True),
            metadata={LOG_MARK: True},
        )

    @classmethod
    def _validated(cls, value: Any, context: Any, view: TypeAdapter[Any] | None) -> Log[Any]:
        if isinstance(context, Loading) and (book := context.open(value)) is not None:
            return cls._of(book, view)
        if _is_log(value):
            given: Log[Any] = value
            if given._known_view() is None:
                given._view = view
            return given
        if not isinstance(value, list | tuple):
            raise PydanticCustomError("log_type", "Input should be a list of items")
        log: Log[Any] = cls._of(Book(Rows([]), 0, (), None, None), view)
        items = cast("Iterable[Any]", value)
        try:
            if view is not None:
                items = [view.validator.validate_python(item, by_alias=True, by_name=True) for item in items]
            log.extend(items)
        except NotStorable as error:
            raise PydanticCustomError("log_item", "{why}", {"why": error.message}) from error
        return log

    @staticmethod
    def _serialized(value: Any, info: core_schema.SerializationInfo) -> Any:
        if not _is_log(value):
            raise ValueError(f"expected a Log, found {type(value).__name__}")
        log: Log[Any] = value
        context: Any = info.context
        if isinstance(context, Dumping):
            return context.place(log._book)
        return from_json(b"[" + b",".join(log.rows()) + b"]")


def is_model(type_: Any) -> bool:
    """True for types whose instances are read back as such: pydantic models, dataclasses, unions of them."""
    origin = get_origin(type_)
    if origin is Annotated:
        return is_model(get_args(type_)[0])
    if origin in (Union, UnionType):
        members = [member for member in get_args(type_) if member is not NoneType]
        return all(is_model(member) for member in members)
    cls: Any = origin or type_
    return isinstance(cls, type) and (issubclass(cls, BaseModel) or is_dataclass(cast("type[Any]", cls)))


def view_of(item: Any) -> TypeAdapter[Any] | None:
    """How items are read back; None: as plain JSON."""
    return TypeAdapter(item) if is_model(item) else None


def has_lost_float(body: bytes, item: Any) -> bool:
    """True if a NaN or an infinity was written as null, or as no JSON at all."""
    if b"null" in body and (isinstance(item, BaseModel) or is_dataclass(item)):
        plain: Any = TypeAdapter(type(item)).dump_python(item, warnings=False)
        body = to_json(plain, serialize_unknown=True, bytes_mode="base64")
    return (b"NaN" in body or b"Infinity" in body) and not_finite(from_json(body)) is not None


def what_it_says(error: BaseException) -> str:
    """The first thing a pydantic error complains of."""
    if isinstance(error, ValidationError):
        return error.errors(include_url=False, include_context=False, include_input=False)[0]["msg"]
    lines = [line.strip() for line in str(error).splitlines()]
    return next((line for line in lines if line and not line.startswith("Pydantic serializer warnings")), repr(error))


def _is_log(value: object) -> TypeGuard[Log[Any]]:
    return isinstance(value, Log)


def _not_storable(index: int, why: str) -> NotStorable:
    return NotStorable(
        f"item {index} of the Log cannot be stored: {why}",
        path=str(index),
        hint="append plain JSON values, pydantic models or dataclasses",
    )
