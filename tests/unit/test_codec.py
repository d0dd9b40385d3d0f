"""What is stored is what is read back; what cannot be stored is named."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from socket import socket
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr, computed_field
from typing_extensions import TypedDict

from standfast.codec import (
    Codec,
    JsonSchema,
    StateCodec,
    branch_logs,
    canonical,
    collapse_logs,
    expand_logs,
    fingerprint,
    from_json,
    merge_patch,
    one_line_diff,
    to_json,
)
from standfast.errors import NotStorable, StoreDamaged, WrongState
from standfast.log import Log


class Customer(BaseModel):
    name: str
    since: datetime | None = None


class Churn(BaseModel):
    month: str
    customers: list[Customer] = []
    rate: float | None = None
    extra: Any = None


@dataclass
class Point:
    x: int
    tags: list[str] = field(default_factory=list[str])


class Row(TypedDict):
    name: str
    count: int


class Message(TypedDict):
    content: Iterable[str]


class Colour(Enum):
    RED = "red"


class Aliased(BaseModel):
    model_config = {"extra": "forbid"}
    size: int = Field(alias="sizeInBytes", serialization_alias="bytes")

    @computed_field
    @property
    def doubled(self) -> int:
        return self.size * 2


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (Churn, Churn(month="May", customers=[Customer(name="Acme", since=datetime(2026, 5, 1, tzinfo=UTC))])),
        (Point, Point(1, ["a"])),
        (Row, {"name": "a", "count": 1}),
        (int | str, "7"),
        (int | str, 7),
        (None, None),
        (Any, {"a": [1, None, "x"]}),
        (list[Point], [Point(1)]),
        (dict[int, Colour], {1: Colour.RED}),
        (tuple[int, str], (1, "a")),
        (bytes, b"abc"),
        (Aliased, Aliased(sizeInBytes=3)),
        (float, 0.1),
        (str, "\u2028 \U0001f600 NaN null"),
    ],
)
def test_what_is_stored_is_read_back_the_same(type_: Any, value: Any) -> None:
    """R15: a new process sees the values the old one had."""
    codec = Codec[Any](type_)
    loaded = codec.load(codec.dump(value))
    assert loaded == value
    assert type(loaded) is type(value)


def wrong_name() -> Churn:
    state = Churn(month="May", customers=[Customer(name=str(n)) for n in range(4)])
    state.customers[3].name = 5  # type: ignore[assignment]
    return state


def wrong_none() -> Churn:
    state = Churn(month="May")
    state.month = None  # type: ignore[assignment]
    return state


def bytes_for_text() -> Churn:
    state = Churn(month="May")
    state.month = b"May"  # type: ignore[assignment]
    return state


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (wrong_name(), "customers.3.name"),
        (wrong_none(), "month"),
        (bytes_for_text(), "month"),
        (Churn(month="May", extra={"deep": [1, object()]}), "extra.deep.1"),
        (Churn(month="May", extra=math.nan), "extra"),
        (Churn(month="May", rate=math.inf), "rate"),
        (Churn(month="May", extra=[{"x": -math.inf}]), "extra.0.x"),
        ({"month": "May"}, ""),
        (None, ""),
    ],
)
def test_a_value_that_cannot_be_stored_is_named(value: Any, path: str) -> None:
    """Bad input: state that cannot be encoded, with the path of the field."""
    codec = Codec[Any](Churn)
    with pytest.raises(NotStorable) as caught:
        codec.dump(value)
    assert caught.value.path == path
    assert caught.value.hint


def test_numbers_next_to_a_null_are_stored() -> None:
    state = Churn(month="NaN Infinity null", rate=None, extra={"a": 1.5, "b": None})
    codec = Codec[Churn](Churn)
    assert codec.load(codec.dump(state)) == state


class Regular(Customer):
    discount: float = 0.1


@dataclass
class Stranger:
    nickname: str = "x"


class Holder(BaseModel):
    inner: Point | None = None
    options: Aliased | Customer | None = None


def test_an_object_of_another_class_is_named_not_stored_in_part() -> None:
    """pydantic would store the declared fields and drop the rest without a word."""
    codec = Codec[Any](Churn)
    with pytest.raises(NotStorable) as caught:
        codec.dump(Churn(month="May", customers=[Customer(name="a"), Regular(name="b")]))
    assert caught.value.path == "customers.1"
    holder = Holder()
    holder.inner = Stranger()  # type: ignore[assignment]
    with pytest.raises(NotStorable) as caught:
        Codec[Any](Holder).dump(holder)
    assert caught.value.path.startswith("inner")
    with pytest.raises(NotStorable):
        Codec[Any](Customer).dump(Regular(name="b"))
    fine = Holder(inner=Point(1), options=Customer(name="a"))
    assert Codec[Any](Holder).load(Codec[Any](Holder).dump(fine)) == fine


def test_a_tuple_in_a_list_field_is_stored_as_a_list() -> None:
    state = Point(1, ("a", "b"))  # type: ignore[arg-type]
    codec = Codec[Point](Point)
    assert codec.load(codec.dump(state)).tags == ["a", "b"]


def test_a_circle_is_named_not_a_crash() -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(NotStorable):
        Codec[Any](Any).dump(circle)


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


UNREADABLE: dict[str, Any] = {
    "long number": 10**5000,
    "long number inside": {"a": 10**5000},
    "one digit too many": [-(10**4300)],
    "one level too deep": nested(191),
    "far too deep": nested(260),
    "key that is half a character": {"\ud800": 1},
    "key that is a long number": {10**5000: 1},
}


@pytest.mark.parametrize("what", UNREADABLE)
def test_what_could_not_be_read_again_is_never_written(what: str) -> None:
    """What dumps without an error loads again, also inside a row or an event."""
    value = UNREADABLE[what]
    for codec in (Codec[Any](Any), StateCodec[Any](Any)):
        with pytest.raises(NotStorable):
            codec.dump(value)
    with pytest.raises(NotStorable):
        StateCodec[Any](Any).round_trip(value, fetch)
    with pytest.raises(NotStorable):
        Log[Any]().append(value)


@pytest.mark.parametrize(
    "value",
    [["7" * 9000], [10**4299], nested(190), [[{}]] * 500, {"a": ["8" * 5000, "[" * 300]}],
    ids=["digits in a text", "largest number", "deepest", "many brackets", "both in texts"],
)
def test_what_only_looks_unreadable_is_stored(value: Any) -> None:
    codec = Codec[Any](Any)
    assert codec.load(codec.dump(value)) == value


class Encoded(BaseModel):
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
    raw: bytes
    rate: float | None = None


def test_bytes_that_a_model_writes_in_its_own_way_are_stored_beside_an_empty_number() -> None:
    codec = Codec[Encoded](Encoded)
    assert codec.load(codec.dump(Encoded(raw=b"\xff"))) == Encoded(raw=b"\xff")


def test_json_that_does_not_fit_is_named() -> None:
    with pytest.raises(NotStorable) as caught:
        Codec[Churn](Churn).load(b'{"month":"May","customers":[{"nam":"x"}]}')
    assert caught.value.path == "customers.0.name"


def test_types_that_could_lose_content_are_refused_at_once() -> None:
    """An Iterable is read once: the second snapshot would have lost it."""
    with pytest.raises(NotStorable, match="Iterable"):
        Codec[Any](Message)
    with pytest.raises(NotStorable):
        Codec[Any](socket)


def test_state_from_outside_is_validated_with_the_field_named() -> None:
    codec = Codec[Churn](Churn)
    assert codec.accept({"month": "May"}) == Churn(month="May")
    with pytest.raises(WrongState, match="customers"):
        codec.accept({"month": "May", "customers": 3})


def test_schema_describes_what_is_written() -> None:
    schema = Codec[Aliased](Aliased).schema
    assert list(schema["properties"]) == ["size"]  # type: ignore[arg-type]
    JsonSchema.validate(schema, from_json(Codec[Aliased](Aliased).dump(Aliased(sizeInBytes=1))))


def test_edit_without_agent_code_is_validated_by_the_stored_schema() -> None:
    """R12: an edit that does not validate is refused, with path and hint."""
    schema = Codec[Churn](Churn).schema
    JsonSchema.validate(schema, {"month": "May", "customers": [{"name": "Acme"}]})
    with pytest.raises(WrongState, match=r"customers\.0\.name") as caught:
        JsonSchema.validate(schema, {"month": "May", "customers": [{"name": 3}]})
    assert "string" in caught.value.hint


def test_round_trip_gives_what_a_new_process_would_see() -> None:
    codec = StateCodec[Churn](Churn)
    state = Churn(month="May", extra=(1, 2))
    raw, rows, seen = codec.round_trip(state, lambda _id, _start, _stop: [])
    assert (rows, seen, seen is state) == ([], codec.load(raw), False)
    assert seen.extra == [1, 2]
    state.month = None  # type: ignore[assignment]
    with pytest.raises(NotStorable) as caught:
        codec.round_trip(state, lambda _id, _start, _stop: [])
    assert caught.value.path == "month"


def test_canonical_json_does_not_depend_on_the_order_of_keys() -> None:
    assert canonical(b'{"b":{"d":1,"c":[{"f":1,"e":2}]},"a":"{"}') == b'{"a":"{","b":{"c":[{"e":2,"f":1}],"d":1}}'
    assert canonical(b"[1,2]") == b"[1,2]"
    assert fingerprint({"a": 1, "b": {"c": 1, "d": 2}}) == fingerprint({"b": {"d": 2, "c": 1}, "a": 1})
    assert fingerprint({"a": 1}) != fingerprint({"a": "1"})
    assert len(fingerprint(None)) == 16


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch_is_that_of_rfc_7396(target: Any, patch: Any, result: Any) -> None:
    before = to_json(target)
    assert merge_patch(target, patch) == result
    assert to_json(target) == before


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ({"month": "May", "c": ["a"]}, {"month": "June", "c": ["a", "b"]}, 'month: "May" -> "June"; c: +1'),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1]}}, "a.b: -1"),
        ({"a": [1, 2]}, {"a": [1, 3]}, "a.1: 2 -> 3"),
        ({"a": [1, 2]}, {"a": [3]}, "a: 2 -> 1 items"),
        ({"a": 1}, {"b": 2}, "a: removed; b: added 2"),
        ({"a": True}, {"a": 1}, "a: true -> 1"),
        ({"a": 1}, {"a": 1}, ""),
        (1, 2, "1 -> 2"),
    ],
)
def test_a_change_is_told_in_one_line(old: Any, new: Any, line: str) -> None:
    assert one_line_diff(old, new) == line


def test_a_long_change_is_cut_short() -> None:
    assert len(one_line_diff({}, {f"key{n}": "x" * 100 for n in range(50)})) == 200


# --- snapshots with Logs, without their types ----------------------------------------------------

STORE = {"aaaa": [b'{"n":0}', b'{"n":1}'], "bbbb": [b'{"n":2}']}
STARTS = {"aaaa": 0, "bbbb": 2}


def fetch(log_id: str, start: int, stop: int) -> list[bytes]:
    first = STARTS[log_id]
    return STORE[log_id][start - first : stop - first]


SNAPSHOT = {"task": "t", "inner": [{"log": {"$log": [["aaaa", 2], ["bbbb", 3]]}}]}
EXPANDED = {"task": "t", "inner": [{"log": [{"n": 0}, {"n": 1}, {"n": 2}]}]}


def test_a_snapshot_is_shown_with_its_logs() -> None:
    """R11: the state can be inspected by a process without agent code."""
    assert expand_logs(SNAPSHOT, fetch) == EXPANDED
    assert expand_logs({"$log": "mine"}, fetch) == {"$log": "mine"}
    with pytest.raises(StoreDamaged):
        expand_logs({"$log": [["aaaa", 9]]}, fetch)


def test_an_edit_may_cut_a_log_or_add_to_it() -> None:
    """Ruling "Edit in mid-step": truncated or appended, not rewritten."""
    assert collapse_logs(SNAPSHOT, EXPANDED, fetch) == (SNAPSHOT, [])

    cut, rows = collapse_logs(SNAPSHOT, {"inner": [{"log": [{"n": 0}]}]}, fetch)
    assert rows == []
    assert expand_logs(cut, fetch) == {"inner": [{"log": [{"n": 0}]}]}
    assert cut["inner"][0]["log"]["$log"][-1][0] not in STORE

    longer, rows = collapse_logs(SNAPSHOT, {"inner": [{"log": [{"n": 0}, {"n": 1}, {"n": 2}, 3]}]}, fetch)
    [(name, first, bodies)] = rows
    assert (first, bodies) == (3, [b"3"])
    assert longer["inner"][0]["log"]["$log"] == [["aaaa", 2], ["bbbb", 3], [name, 4]]

    with pytest.raises(WrongState, match="item 1"):
        collapse_logs(SNAPSHOT, {"inner": [{"log": [{"n": 0}, {"n": 7}]}]}, fetch)


def test_a_branched_snapshot_reads_the_same_and_goes_on_elsewhere() -> None:
    branched = branch_logs(SNAPSHOT)
    assert expand_logs(branched, fetch) == EXPANDED
    assert branched["inner"][0]["log"]["$log"][-1][0] not in STORE


class Login(BaseModel):
    user: str
    password: SecretStr


def test_a_secret_is_refused_before_it_is_stored_as_asterisks() -> None:
    with pytest.raises(NotStorable) as caught:
        _ = Codec[Any](dict[str, Login]).schema
    assert "password" in caught.value.path
    assert "provide=" in caught.value.hint
