"""Log[T]: an append-only list of which a snapshot stores only where its rows are.

A row is the JSON of what was appended, encoded once. A snapshot holds segments
`[[log_id, upto], ...]`: rows [0, upto0) are in the first log id, [upto0, upto1) in the
second. Appends go on in the last id; `branch()` makes them go to a new one, so that rows
committed by a future that was rewound are never overwritten.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Generic, TypeAlias, TypeVar, Union, cast, get_args, get_origin, overload

from pydantic import BaseModel, GetCoreSchemaHandler, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError, PydanticSerializationError, core_schema, from_json, to_json

from standfast.errors import NotStorable, StoreDamaged

T = TypeVar("T")

LogRows: TypeAlias = tuple[str, int, list[bytes]]
"""Rows to be written: log id, index of the first one, bodies."""

Fetch: TypeAlias = Callable[[str, int, int], list[bytes]]
"""Gives rows [start, stop) of a log id."""

Segments: TypeAlias = tuple[tuple[str, int], ...]

LOG_MARK = "standfast_log"  # in the metadata of a Log's core schema
LOG_KEY = "$log"  # in a snapshot


class _Line:
    """A log id that rows go to. Rows [.., written) of it may be in the store: never write those again."""

    __slots__ = ("name", "written")

    def __init__(self, name: str, written: int) -> None:
        self.name = name
        self.written = written


class _Rows:
    """Encoded rows, shared by a Log and those read back from its snapshots. Only ever appended to."""

    __slots__ = ("absent", "bodies", "fetch", "segments")

    def __init__(self, bodies: list[bytes], segments: Segments = (), fetch: Fetch | None = None) -> None:
        self.bodies = bodies  # rows from `absent` on
        self.segments = segments  # where the absent ones are
        self.absent = segments[-1][1] if segments else 0
        self.fetch = fetch

    def __len__(self) -> int:
        return self.absent + len(self.bodies)

    def all(self) -> list[bytes]:
        """Every row; those still in the store are fetched, once."""
        if self.absent:
            assert self.fetch is not None
            self.bodies[:0] = fetch_rows(self.segments, self.fetch)
            self.absent = 0
        return self.bodies


class Log(Sequence[T], Generic[T]):
    """An append-only list; what was appended is stored once and never rewritten.

    Reading gives what a new process would read: the JSON of what was appended, or an instance
    of T where T is a pydantic model or a dataclass. What is read is a copy made for this step;
    changing it changes nothing that is stored.
    """

    __slots__ = ("__orig_class__", "_cache", "_home", "_length", "_line", "_rows", "_segments", "_view")

    _rows: _Rows  # may hold rows of others beyond _length
    _length: int
    _segments: Segments  # where rows [0, _stored) are
    _line: _Line | None  # where rows from _stored on will go; None: a new id
    _home: object  # whose snapshot the segments are part of
    _view: TypeAdapter[Any] | None
    _cache: dict[int, Any]

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._start(_Rows([]), 0, (), None, None, None)
        self.extend(items)

    def _start(
        self,
        rows: _Rows,
        length: int,
        segments: Segments,
        line: _Line | None,
        home: object,
        view: TypeAdapter[Any] | None,
    ) -> None:
        self._rows, self._length, self._segments = rows, length, segments
        self._line, self._home, self._view = line, home, view
        self._cache = {}

    # --- writing ---------------------------------------------------------------------------

    def append(self, item: T) -> None:
        """Add one item, as it is now: later changes to it do not reach the Log."""
        self._add([self._encode(item, self._length)])

    def extend(self, items: Iterable[T]) -> None:
        """Add all of the items, or none if one of them cannot be stored."""
        self._add([self._encode(item, index) for index, item in enumerate(items, self._length)])

    def _add(self, bodies: list[bytes]) -> None:
        if len(self._rows) != self._length:  # another Log went on from here: part ways
            self._rows = _Rows(self._rows.all()[: self._length])
        self._rows.bodies.extend(bodies)
        self._length += len(bodies)

    def _encode(self, item: Any, index: int) -> bytes:
        view = self._known_view()
        try:
            if view is not None:
                body = view.serializer.to_json(item, warnings="error", round_trip=True, by_alias=False)
                if item is None:
                    view.validator.validate_python(item)
            elif isinstance(item, BaseModel):
                # Provider SDKs build models that do not fit their own types: kept as they are.
                body = item.__pydantic_serializer__.to_json(item, warnings="none", by_alias=True)
            else:
                body = to_json(item)
        except (PydanticSerializationError, ValidationError, ValueError, RecursionError) as error:
            raise _not_storable(index, first_line(error)) from error
        if has_lost_float(body, item):
            raise _not_storable(index, "NaN and infinity are not JSON")
        return body

    def branch(self) -> None:
        """Let later rows go to a new log id; those there are stay where they are."""
        self._line = None

    # --- reading ---------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return self._read(range(self._length)[index])
        at = index + self._length if index < 0 else index
        if not 0 <= at < self._length:
            raise IndexError(f"the Log has {self._length} items, no index {index}")
        return cast("T", self._item(at))

    def __iter__(self) -> Iterator[T]:
        return iter(self._read(range(self._length)))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Log | list):
            return list(self) == list(cast("Iterable[Any]", other))
        return NotImplemented

    # Unhashable like a list: pydantic then copies a default, and dataclasses refuse one.
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        if self._rows.absent:
            return f"Log({self._length} items)"
        shown = ", ".join(repr(item) for item in self[-3:])
        return f"Log([{'..., ' if self._length > 3 else ''}{shown}])"

    def __deepcopy__(self, memo: dict[int, Any]) -> Log[T]:
        return self.__copy__()

    def __copy__(self) -> Log[T]:
        copied: Log[T] = Log.__new__(Log)
        copied._start(self._rows, self._length, self._segments, None, self._home, self._known_view())
        return copied

    def _read(self, indices: range) -> list[T]:
        missing = [at for at in indices if at not in self._cache]
        if len(missing) > 1 and self._known_view() is None:
            bodies = self._rows.all()
            decoded = from_json(b"[" + b",".join([bodies[at] for at in missing]) + b"]", cache_strings="keys")
            self._cache.update(zip(missing, decoded, strict=True))
        return [self._item(at) for at in indices]

    def _item(self, at: int) -> Any:
        if at not in self._cache:
            body, view = self._rows.all()[at], self._known_view()
            try:
                self._cache[at] = (
                    from_json(body)
                    if view is None
                    else view.validator.validate_json(body, by_alias=True, by_name=True)
                )
            except ValidationError as error:
                raise _not_storable(at, first_line(error)) from error
        return self._cache[at]

    def _plain(self) -> list[Any]:
        bodies = self._rows.all()[: self._length]
        return cast("list[Any]", from_json(b"[" + b",".join(bodies) + b"]"))

    def _known_view(self) -> TypeAdapter[Any] | None:
        if self._view is None and (alias := getattr(self, "__orig_class__", None)) is not None:
            self._view = view_of(get_args(alias)[0])  # made as Log[Item]()
        return self._view

    # --- as a field --------------------------------------------------------------------------

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        item = (get_args(source) or (Any,))[0]
        view: list[TypeAdapter[Any] | None] = []  # made when first needed: T may not be complete yet

        def known() -> TypeAdapter[Any] | None:
            if not view:
                view.append(view_of(item))
            return view[0]

        def validate(value: Any, info: core_schema.ValidationInfo) -> Log[Any]:
            return _validated(value, info.context, known())

        items = handler.generate_schema(item) if is_model(item) else core_schema.any_schema()
        return core_schema.with_info_plain_validator_function(
            validate,
            json_schema_input_schema=core_schema.list_schema(items),
            serialization=core_schema.plain_serializer_function_ser_schema(
                _serialized, info_arg=True, return_schema=core_schema.any_schema()
            ),
            metadata={LOG_MARK: True},
        )


class Dumping(dict[str, Any]):
    """The context of one dump: gives each Log its place, and collects the rows to be written.

    A dict, empty, so that validators and serializers that look into their context find nothing.
    """

    __slots__ = ("_claimed", "_home", "_placed", "_strange", "near", "rows")

    def __init__(self, home: object = None, *, strange: bool = False) -> None:
        super().__init__()
        self._home = home
        self._strange = strange  # every Log is from elsewhere: its rows are written in full
        self._placed: dict[int, Segments] = {}  # by identity of the Log
        self._claimed: set[str] = set()  # ids that rows of this dump go to
        self.near: dict[Segments, tuple[Log[Any], _Line | None]] = {}
        self.rows: list[LogRows] = []

    def place(self, log: Log[Any]) -> dict[str, Any]:
        """The Log as it stands in the snapshot."""
        segments = self._placed.get(id(log))
        if segments is None:
            segments = self._placed[id(log)] = self._new_place(log)
        return {LOG_KEY: segments}

    def _new_place(self, log: Log[Any]) -> Segments:
        foreign = self._strange or (self._home is not None and log._home is not self._home and bool(log._segments))
        segments, line = ((), None) if foreign else (log._segments, log._line)
        stored = segments[-1][1] if segments else 0
        if log._length > stored:
            if line is None or line.written > stored or line.name in self._claimed:
                line = _Line(secrets.token_hex(8), stored)
                if not foreign:
                    log._line = line  # dumped again, the rows go to the same id
            self._claimed.add(line.name)
            bodies = log._rows.all() if log._rows.absent > stored else log._rows.bodies
            offset = log._rows.absent
            self.rows.append((line.name, stored, bodies[stored - offset : log._length - offset]))
            kept = segments[:-1] if segments and segments[-1][0] == line.name else segments
            segments = (*kept, (line.name, log._length))
        self.near.setdefault(segments, (log, line))
        return segments

    def handed_over(self) -> None:
        """The rows are written: the Logs themselves go on behind them."""
        for segments, (log, line) in self.near.items():
            if line is not None:
                line.written = log._length
            log._segments, log._line, log._home = segments, line, self._home


class Loading(dict[str, Any]):
    """The context of one load: makes Logs whose rows are fetched when first read."""

    __slots__ = ("_branched", "_fetch", "_home", "_near", "_taken")

    def __init__(
        self,
        fetch: Fetch,
        home: object = None,
        near: dict[Segments, tuple[Log[Any], _Line | None]] | None = None,
        *,
        branched: bool = False,
    ) -> None:
        super().__init__()
        self._fetch = fetch
        self._home = home
        self._near = near or {}
        self._branched = branched
        self._taken: set[str] = set()  # ids that a Log of this load goes on in

    def open(self, segments: Segments, view: TypeAdapter[Any] | None) -> Log[Any]:
        """The Log that stands so in the snapshot."""
        length = segments[-1][1] if segments else 0
        near = self._near.get(segments)
        if near is not None:
            old, line = near
            rows = old._rows
            if line is not None:
                line.written = max(line.written, length)
        else:
            rows = _Rows([], segments, self._fetch)
            line = _Line(segments[-1][0], length) if segments else None
        if line is not None:
            if self._branched or line.name in self._taken:
                line = None
            else:
                self._taken.add(line.name)
        log: Log[Any] = Log.__new__(Log)
        log._start(rows, length, segments, line, self._home, view)
        return log


def segments_of(value: object) -> Segments | None:
    """The segments, if this is how a Log stands in a snapshot."""
    if not isinstance(value, dict) or len(cast("dict[Any, Any]", value)) != 1 or LOG_KEY not in value:
        return None
    found: list[tuple[str, int]] = []
    listed: Any = cast("dict[str, Any]", value)[LOG_KEY]
    if not isinstance(listed, list | tuple):
        return None
    for pair in cast("Sequence[Any]", listed):
        if not isinstance(pair, list | tuple) or len(cast("Sequence[Any]", pair)) != 2:
            return None
        name, upto = cast("Sequence[Any]", pair)
        if not isinstance(name, str) or type(upto) is not int or upto < (found[-1][1] if found else 0):
            return None
        found.append((name, upto))
    return tuple(found)


def fetch_rows(segments: Segments, fetch: Fetch) -> list[bytes]:
    """Every row of the segments, in order; StoreDamaged if one is missing."""
    rows: list[bytes] = []
    for name, upto in segments:
        start = len(rows)
        rows += fetch(name, start, upto) if upto > start else []
        if len(rows) != upto:
            raise StoreDamaged(
                f"log {name} has {len(rows) - start} of the rows {start}..{upto}",
                hint="the file lacks rows that a snapshot counts on; restore it from a backup",
            )
    return rows


def is_model(type_: Any) -> bool:
    """True for types whose instances are read back as such: pydantic models, dataclasses, unions of them."""
    origin = get_origin(type_)
    if origin is Annotated:
        return is_model(get_args(type_)[0])
    if origin in (Union, UnionType):
        members = [member for member in get_args(type_) if member is not NoneType]
        return bool(members) and all(is_model(member) for member in members)
    cls = origin or type_
    return isinstance(cls, type) and (issubclass(cls, BaseModel) or is_dataclass(cls))


def view_of(item: Any) -> TypeAdapter[Any] | None:
    """How items are read back; None: as plain JSON."""
    return TypeAdapter(item) if is_model(item) else None


def has_lost_float(body: bytes, item: Any) -> bool:
    """True if a NaN or an infinity was written as something else, or as no JSON at all."""
    if b"null" in body and not isinstance(item, str | int | None):
        plain = item.model_dump(warnings="none") if isinstance(item, BaseModel) else item
        body = to_json(plain, serialize_unknown=True)
    return (b"NaN" in body or b"Infinity" in body) and not_finite(from_json(body)) is not None


def not_finite(value: Any, path: str = "") -> str | None:
    """The path of the first NaN or infinity in a JSON value."""
    if isinstance(value, float):
        return path if value != value or value in (float("inf"), float("-inf")) else None
    children: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        children = cast("dict[Any, Any]", value).items()
    elif isinstance(value, list):
        children = enumerate(cast("list[Any]", value))
    for key, child in children:
        found = not_finite(child, f"{path}.{key}" if path else str(key))
        if found is not None:
            return found
    return None


def first_line(error: BaseException) -> str:
    """What a pydantic error says, without its frame."""
    if isinstance(error, ValidationError):
        return error.errors(include_url=False, include_context=False, include_input=False)[0]["msg"]
    lines = [line.strip() for line in str(error).splitlines()]
    return next((line for line in lines if line and not line.startswith("Pydantic serializer warnings")), repr(error))


def _validated(value: Any, context: Any, view: TypeAdapter[Any] | None) -> Log[Any]:
    if isinstance(value, Log):
        log = cast("Log[Any]", value)
        if log._known_view() is None:
            log._view = view
        return log
    if isinstance(context, Loading) and (segments := segments_of(value)) is not None:
        return context.open(segments, view)
    if not isinstance(value, list | tuple):
        raise PydanticCustomError("log_type", "Input should be a list of items")
    log = Log[Any]()
    log._view = view
    try:
        if view is not None:
            value = [view.validator.validate_python(item, by_alias=True, by_name=True) for item in value]
        log.extend(cast("list[Any]", value))
    except NotStorable as error:
        raise PydanticCustomError("log_item", "{why}", {"why": error.message}) from error
    return log


def _serialized(log: Log[Any], info: core_schema.SerializationInfo) -> Any:
    if not isinstance(log, Log):
        raise ValueError(f"Expected a Log, found {type(log).__name__}")
    context: Any = info.context
    return context.place(log) if isinstance(context, Dumping) else log._plain()


def _not_storable(index: int, why: str) -> NotStorable:
    return NotStorable(
        f"item {index} of the Log cannot be stored: {why}",
        path=str(index),
        hint="append plain JSON values, pydantic models or dataclasses",
    )
