"""Where the rows of a Log are: in memory, in the store, and in a snapshot."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any, TypeAlias

from pydantic_core import from_json, to_json

from standfast.errors import StoreDamaged, WrongState
from standfast.json_values import is_array, is_object, same_json

LogRows: TypeAlias = tuple[str, int, list[bytes]]
"""Rows to be written: log id, index of the first one, bodies."""

Fetch: TypeAlias = Callable[[str, int, int], list[bytes]]
"""Gives rows [start, stop) of a log id."""

Segments: TypeAlias = tuple[tuple[str, int], ...]
"""(log_id, upto), ...: rows [0, upto0) are in the first id, [upto0, upto1) in the second."""

LOG_KEY = "$log"


class Line:
    """A log id that rows go to. Rows below `written` may be in the store: they are never written again."""

    __slots__ = ("name", "written")

    def __init__(self, name: str, written: int) -> None:
        self.name = name
        self.written = written


class Rows:
    """Encoded rows, shared by the books of one Log through its steps. Only ever appended to."""

    __slots__ = ("absent", "bodies", "fetch", "segments")

    def __init__(self, bodies: list[bytes], segments: Segments = (), fetch: Fetch | None = None) -> None:
        self.bodies = bodies  # rows from `absent` on
        self.absent = segments[-1][1] if segments else 0
        self.segments = segments  # where the absent ones are
        self.fetch = fetch

    def all(self) -> list[bytes]:
        """Every row; those still in the store are fetched, once."""
        if self.absent and self.fetch is not None:
            self.bodies[:0] = fetch_rows(self.segments, self.fetch)
            self.absent = 0
        return self.bodies


class Book:
    """The rows of one Log, and where they are stored."""

    __slots__ = ("home", "length", "line", "rows", "segments")

    def __init__(self, rows: Rows, length: int, segments: Segments, line: Line | None, home: object) -> None:
        self.rows = rows  # may hold rows of others beyond `length`
        self.length = length
        self.segments = segments  # where rows [0, stored) are
        self.line = line  # where later rows go; None: to a new id
        self.home = home  # what the snapshot belongs to that the segments are from

    @property
    def stored(self) -> int:
        return self.segments[-1][1] if self.segments else 0

    def add(self, bodies: list[bytes]) -> None:
        rows = self.rows
        if rows.absent + len(rows.bodies) != self.length:  # another book went on from here: part ways
            rows = self.rows = Rows(rows.all()[: self.length])
        rows.bodies.extend(bodies)
        self.length += len(bodies)

    def added(self) -> list[bytes]:
        """The rows that no snapshot has yet."""
        rows, stored = self.rows, self.stored
        bodies = rows.all() if rows.absent > stored else rows.bodies
        return bodies[stored - rows.absent : self.length - rows.absent]

    def copy(self) -> Book:
        """The same rows so far; what is added to either stays with it."""
        return Book(self.rows, self.length, self.segments, None, self.home)


class Dumping(dict[str, Any]):
    """The context of one dump: gives each Log its place, and collects the rows to be written.

    A dict, and empty, so that a user's serializers that look into their context find nothing.
    """

    __slots__ = ("_claimed", "_home", "_placed", "_strange", "near", "rows")

    def __init__(self, home: object = None, *, strange: bool = False) -> None:
        self._home = home
        self._strange = strange  # every Log is from elsewhere: its rows are written in full
        self._placed: dict[int, Segments] = {}  # by identity of the book
        self._claimed: set[str] = set()  # ids that rows of this dump go to
        self.near: dict[Segments, tuple[Rows, Line | None]] = {}
        self.rows: list[LogRows] = []

    def place(self, book: Book) -> dict[str, Segments]:
        """The Log as it stands in the snapshot."""
        segments = self._placed.get(id(book))
        if segments is None:
            segments = self._placed[id(book)] = self._new_place(book)
        return {LOG_KEY: segments}

    def _new_place(self, book: Book) -> Segments:
        foreign = self._strange or (self._home is not None and book.home is not self._home)
        segments, line, stored = ((), None, 0) if foreign else (book.segments, book.line, book.stored)
        if book.length > stored:
            if line is None or line.written > stored or line.name in self._claimed:
                line = Line(secrets.token_hex(8), stored)
                if not self._strange:  # dumped again, the rows go to the same id
                    book.segments, book.line, book.home = segments, line, self._home
            self._claimed.add(line.name)
            self.rows.append((line.name, stored, book.added() if not foreign else book.rows.all()[: book.length]))
            kept = segments[:-1] if segments and segments[-1][0] == line.name else segments
            segments = (*kept, (line.name, book.length))
        self.near.setdefault(segments, (book.rows, line))
        return segments


class Loading(dict[str, Any]):
    """The context of one load: opens books whose rows are fetched when first read."""

    __slots__ = ("_branched", "_fetch", "_home", "_near", "_taken")

    def __init__(
        self,
        fetch: Fetch,
        home: object = None,
        near: dict[Segments, tuple[Rows, Line | None]] | None = None,
        *,
        branched: bool = False,
    ) -> None:
        self._fetch = fetch
        self._home = home
        self._near = near or {}  # rows that are in memory
        self._branched = branched
        self._taken: set[str] = set()  # ids that a book of this load goes on in

    def open(self, value: Any) -> Book | None:
        """The book that stands so in the snapshot; None if it is no Log."""
        segments = segments_of(value)
        if segments is None:
            return None
        length = segments[-1][1] if segments else 0
        near = self._near.get(segments)
        if near is not None:
            rows, line = near
            if line is not None and line.written < length:
                line.written = length
        else:
            rows = Rows([], segments, self._fetch)
            line = Line(segments[-1][0], length) if segments else None
        if line is not None:
            if self._branched or line.name in self._taken:
                line = None
            else:
                self._taken.add(line.name)
        return Book(rows, length, segments, line, self._home)


def segments_of(value: object) -> Segments | None:
    """The segments, if this is how a Log stands in a snapshot."""
    if not is_object(value) or len(value) != 1 or not is_array(listed := value.get(LOG_KEY)):
        return None
    found: list[tuple[str, int]] = []
    last = 0
    for pair in listed:
        if not is_array(pair) or len(pair) != 2:
            return None
        name, upto = pair
        if not isinstance(name, str) or type(upto) is not int or upto < last:
            return None
        last = upto
        found.append((name, last))
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


# --- snapshots without their types: what a process without agent code can do ---------------------


def expand_logs(state_json: Any, fetch: Fetch) -> Any:
    """The snapshot with every Log as the list it stands for."""
    if is_object(state_json):
        segments = segments_of(state_json)
        if segments is not None:
            return [from_json(row) for row in fetch_rows(segments, fetch)]
        return {key: expand_logs(child, fetch) for key, child in state_json.items()}
    if is_array(state_json):
        return [expand_logs(child, fetch) for child in state_json]
    return state_json


def branch_logs(state_json: Any) -> Any:
    """The snapshot with later rows of every Log going to new ids: for rewind and fork."""
    if is_object(state_json):
        segments = segments_of(state_json)
        if segments is not None:
            return {LOG_KEY: [*map(list, segments), [secrets.token_hex(8), segments[-1][1]]] if segments else []}
        return {key: branch_logs(child) for key, child in state_json.items()}
    if is_array(state_json):
        return [branch_logs(child) for child in state_json]
    return state_json


def collapse_logs(state_json: Any, edited: Any, fetch: Fetch) -> tuple[Any, list[LogRows]]:
    """The edited, expanded state as a snapshot again, and the rows to be written with it.

    A Log may have been cut or added to; WrongState if an item of it was changed.
    """
    rows: list[LogRows] = []
    return _collapse(state_json, edited, fetch, rows, ""), rows


def _collapse(old: Any, new: Any, fetch: Fetch, rows: list[LogRows], path: str) -> Any:
    segments = segments_of(old)
    if segments is not None and is_array(new):
        return _collapse_log(segments, new, fetch, rows, path)
    if is_object(old) and is_object(new):
        return {
            key: _collapse(old[key], child, fetch, rows, f"{path}.{key}" if path else key) if key in old else child
            for key, child in new.items()
        }
    if is_array(old) and is_array(new):
        return [
            _collapse(old[index], child, fetch, rows, f"{path}.{index}") if index < len(old) else child
            for index, child in enumerate(new)
        ]
    return new


def _collapse_log(segments: Segments, items: list[Any], fetch: Fetch, rows: list[LogRows], path: str) -> Any:
    stored = [from_json(row) for row in fetch_rows(segments, fetch)]
    kept = min(len(stored), len(items))
    changed = next((index for index in range(kept) if not same_json(stored[index], items[index])), None)
    if changed is not None:
        raise WrongState(
            f"the edit changes item {changed} of the Log {path}",
            hint="a Log may be cut short or added to; its items are never rewritten",
        )
    if len(items) == len(stored):
        return {LOG_KEY: [list(pair) for pair in segments]}
    # Cut or added to: what comes after goes to a new id, so the rows there are stay readable.
    name = secrets.token_hex(8)
    if len(items) > kept:
        rows.append((name, kept, [to_json(item) for item in items[kept:]]))
    left: list[list[Any]] = []
    for old_name, upto in segments:
        if not left or left[-1][1] < kept:
            left.append([old_name, min(upto, kept)])
    return {LOG_KEY: [*left, [name, len(items)]]}
