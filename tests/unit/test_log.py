"""An append-only list that costs what was appended, and reads the same in every process."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import BaseModel, Field, ValidationError
from typing_extensions import TypedDict

from standfast.codec import StateCodec, from_json
from standfast.errors import NotStorable, StoreDamaged
from standfast.log import Log
from standfast.log_places import LogRows
from standfast.records import Json


class Item(BaseModel):
    name: str
    price: float | None = None


@dataclass
class Note:
    text: str


class Part(TypedDict):
    text: str


class Chat(BaseModel):
    task: str = ""
    log: Log[Json] = Field(default_factory=Log)
    items: Log[Item] = Log()
    notes: Log[Note] = Log()
    parts: dict[str, Log[Part]] = {}


@dataclass
class Plain:
    log: Log[Any] = field(default_factory=Log[Any])


class Store:
    """Rows as a store keeps them: written once, never overwritten."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, int], bytes] = {}
        self.fetched = 0

    def write(self, rows: list[LogRows]) -> None:
        for log_id, first, bodies in rows:
            for index, body in enumerate(bodies, first):
                assert (log_id, index) not in self.rows, "a committed row was written again"
                self.rows[log_id, index] = body

    def fetch(self, log_id: str, start: int, stop: int) -> list[bytes]:
        self.fetched += 1
        return [self.rows[log_id, index] for index in range(start, stop) if (log_id, index) in self.rows]


CHATS = StateCodec[Chat](Chat)


def commit(store: Store, state: Chat) -> tuple[bytes, Chat]:
    raw, rows, seen = CHATS.round_trip(state, store.fetch)
    store.write(rows)
    return raw, seen


def test_a_log_behaves_like_a_list_that_only_grows() -> None:
    log: Log[Any] = Log([1])
    log.append({"a": 2})
    log.extend([3, None])
    assert (len(log), log[0], log[-1], log[1:3], list(log)) == (4, 1, None, [{"a": 2}, 3], [1, {"a": 2}, 3, None])
    assert log == [1, {"a": 2}, 3, None]
    assert log == Log([1, {"a": 2}, 3, None])
    assert log != [1]
    assert 3 in log
    assert not Log()
    assert repr(Log([1, 2, 3, 4])) == "Log([..., 2, 3, 4])"
    with pytest.raises(IndexError):
        log[4]
    with pytest.raises(TypeError):
        hash(log)


def test_defaults_are_never_shared() -> None:
    first, second = Chat(), Chat()
    first.items.append(Item(name="a"))
    first.log.append({})
    assert (len(second.items), len(second.log), len(Chat().items)) == (0, 0, 0)


def test_an_item_is_stored_as_it_was_when_appended() -> None:
    log: Log[Any] = Log()
    message = {"role": "user"}
    log.append(message)
    message["role"] = "changed"
    assert log[0] == {"role": "user"}


@pytest.mark.parametrize(
    "item", [object(), {"x": [object()]}, math.nan, {"x": math.inf}, Item(name="a", price=math.nan)]
)
def test_an_item_that_cannot_be_stored_is_named_and_nothing_is_added(item: Any) -> None:
    log: Log[Any] = Log([1])
    with pytest.raises(NotStorable, match="item 2") as caught:
        log.extend(["fine", item])
    assert caught.value.path == "2"
    assert log == [1]


def test_an_item_of_another_type_is_refused() -> None:
    class Costly(Item):
        tax: int = 1

    chat = Chat.model_validate({"items": []})
    for wrong in ({"name": "a"}, Note("a"), None, Costly(name="its tax would be lost")):
        with pytest.raises(NotStorable):
            chat.items.append(wrong)  # type: ignore[arg-type]


def test_models_and_dataclasses_are_read_as_such_and_all_else_as_json() -> None:
    store = Store()
    state = Chat(parts={"p": Log([Part(text="t")])})
    state.items.append(Item(name="a"))
    state.notes.append(Note("n"))
    state.log.append({"x": Item(name="inner")})  # type: ignore[dict-item]
    raw, seen = commit(store, state)
    for loaded in (seen, CHATS.load_state(raw, store.fetch)):
        assert loaded.items[0] == Item(name="a")
        assert loaded.notes[:] == [Note("n")]
        assert loaded.log[0] == {"x": {"name": "inner", "price": None}}
        assert loaded.parts["p"] == [{"text": "t"}]


def test_made_with_its_item_type_a_log_knows_it_at_once() -> None:
    log = Log[Item]()
    log.append(Item(name="a"))
    assert log[0] == Item(name="a")


def test_a_snapshot_holds_places_and_only_new_rows_are_handed_out() -> None:
    """Logs are appended, never rewritten; snapshots stay small."""
    store = Store()
    state = Chat()
    raw, state = commit(store, state)
    assert from_json(raw)["log"] == {"$log": []}
    sizes: list[int] = []
    for n in range(50):
        state.log.append({"n": n, "text": "x" * 1000})
        raw, rows, state = CHATS.round_trip(state, store.fetch)
        assert [(first, len(bodies)) for _, first, bodies in rows] == [(n, 1)]
        store.write(rows)
        sizes.append(len(raw))
    assert max(sizes) - min(sizes) <= 2
    assert len({log_id for log_id, _ in store.rows}) == 1
    assert [item["n"] for item in state.log] == list(range(50))
    assert store.fetched == 0, "rows in memory are not fetched again"


def test_a_loaded_log_fetches_rows_when_first_read_and_only_then() -> None:
    store = Store()
    state = Chat()
    state.log.extend([{"n": n} for n in range(3)])
    raw, _ = commit(store, state)
    loaded = CHATS.load_state(raw, store.fetch)
    assert len(loaded.log) == 3
    loaded.log.append({"n": 3})
    assert repr(loaded.log) == "Log(4 items)"
    raw, loaded = commit(store, loaded)
    assert store.fetched == 0
    assert [item["n"] for item in loaded.log] == [0, 1, 2, 3]
    _, loaded = commit(store, loaded)
    assert loaded.log[0] == {"n": 0}
    assert store.fetched == 1
    assert list(CHATS.load_state(raw, store.fetch).log) == list(loaded.log)


def test_what_was_read_and_changed_is_not_seen_by_the_next_step() -> None:
    """What the next step sees is what a new process would see."""
    store = Store()
    state = Chat()
    state.log.append({"text": "said"})
    state.log[0]["text"] = "changed"
    raw, state = commit(store, state)
    assert state.log[0] == {"text": "said"} == CHATS.load_state(raw, store.fetch).log[0]


def test_a_step_that_is_set_back_appends_again_from_its_snapshot() -> None:
    store = Store()
    state = Chat()
    state.log.append({"n": 0})
    raw, state = commit(store, state)
    state.log.append({"n": "never committed"})
    CHATS.round_trip(state, store.fetch)
    state = CHATS.load_state(raw, store.fetch)
    state.log.append({"n": 1})
    raw, state = commit(store, state)
    assert list(CHATS.load_state(raw, store.fetch).log) == [{"n": 0}, {"n": 1}]


@pytest.mark.parametrize("how", ["branched", "branch()"])
def test_a_rewound_log_never_overwrites_the_rows_of_the_future_it_left(how: str) -> None:
    store = Store()
    state = Chat()
    state.log.append({"n": 0})
    early, state = commit(store, state)
    state.log.append({"n": "future"})
    late, state = commit(store, state)

    rewound = CHATS.load_state(early, store.fetch, branched=how == "branched")
    if how == "branch()":
        rewound.log.branch()
    rewound.log.append({"n": 1})
    again, rewound = commit(store, rewound)
    rewound.log.append({"n": 2})
    again, rewound = commit(store, rewound)
    assert list(CHATS.load_state(again, store.fetch).log) == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert list(CHATS.load_state(late, store.fetch).log) == [{"n": 0}, {"n": "future"}]


def test_a_log_kept_from_an_earlier_step_never_overwrites_committed_rows() -> None:
    store = Store()
    state = Chat()
    state.log.append({"n": 0})
    _, state = commit(store, state)
    kept = state.log
    state.log.append({"n": 1})
    _, state = commit(store, state)
    state.log.append({"n": 2})
    _, state = commit(store, state)
    stale = kept  # has n=0, n=1, of which n=1 was committed after it was loaded
    stale.append({"n": "other"})
    state.log = stale
    raw, state = commit(store, state)
    assert list(CHATS.load_state(raw, store.fetch).log) == [{"n": 0}, {"n": 1}, {"n": "other"}] == list(state.log)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda log: log])
def test_two_fields_with_one_log_go_on_apart_after_the_boundary(copied: Any) -> None:
    store = Store()
    state = Chat()
    state.log.append({"n": 0})
    state.parts = {"twin": copied(state.log)}
    raw, state = commit(store, state)
    state.log.append({"n": "left"})
    state.parts["twin"].append(Part(text="right"))
    raw, state = commit(store, state)
    for seen in (state, CHATS.load_state(raw, store.fetch)):
        assert list(seen.log) == [{"n": 0}, {"n": "left"}]
        assert list(seen.parts["twin"]) == [{"n": 0}, {"text": "right"}]


@pytest.mark.parametrize("first", ["left", "right"])
def test_twins_in_a_new_process_never_write_one_row_twice(first: str) -> None:
    store = Store()
    state = Chat()
    state.log.append({"n": 0})
    state.parts = {"twin": state.log}  # type: ignore[dict-item]
    raw, _ = commit(store, state)
    state = CHATS.load_state(raw, store.fetch)
    for which in (first, "right" if first == "left" else "left"):
        (state.log if which == "left" else state.parts["twin"]).append({"text": which})  # type: ignore[arg-type]
        raw, state = commit(store, state)
    loaded = CHATS.load_state(raw, store.fetch)
    assert list(loaded.log) == [{"n": 0}, {"text": "left"}]
    assert list(loaded.parts["twin"]) == [{"n": 0}, {"text": "right"}]


def test_two_readings_of_one_snapshot_in_one_state_keep_their_own_rows() -> None:
    store = Store()
    state = Chat()
    state.log.append({"n": 0})
    raw, _ = commit(store, state)
    state, other = CHATS.load_state(raw, store.fetch), CHATS.load_state(raw, store.fetch)
    state.log.append({"n": "left"})
    other.log.append({"n": "right"})
    state.parts = {"other": other.log}  # type: ignore[dict-item]
    raw, state = commit(store, state)
    assert list(state.log) == [{"n": 0}, {"n": "left"}]
    assert list(state.parts["other"]) == [{"n": 0}, {"n": "right"}]


def test_a_copy_made_in_mid_step_keeps_its_own_rows() -> None:
    store = Store()
    state = Chat()
    state.log.append({"n": 0})
    _, state = commit(store, state)
    state.log.append({"n": 1})
    state.parts = {"twin": copy.deepcopy(state.log)}  # type: ignore[dict-item]
    state.log.append({"n": "left"})
    state.parts["twin"].append(Part(text="right"))
    raw, state = commit(store, state)
    for seen in (state, CHATS.load_state(raw, store.fetch)):
        assert list(seen.log) == [{"n": 0}, {"n": 1}, {"n": "left"}]
        assert list(seen.parts["twin"]) == [{"n": 0}, {"n": 1}, {"text": "right"}]


def test_a_log_from_another_run_is_stored_in_full() -> None:
    """A child run given its parent's Log finds every row in its own."""
    parent_store, child_store = Store(), Store()
    parent, child = object(), object()
    state = Chat()
    state.log.append({"n": 0})
    raw, rows, state = CHATS.round_trip(state, parent_store.fetch, home=parent)
    parent_store.write(rows)

    given = Chat(log=state.log)
    raw, rows = CHATS.dump_new(given)
    child_store.write(rows)
    started = CHATS.load_state(raw, child_store.fetch, home=child)
    assert started.log == [{"n": 0}]

    started.log = state.log  # the parent's, in the middle of a step
    started.log.append({"n": 1})
    raw, rows, started = CHATS.round_trip(started, child_store.fetch, home=child)
    child_store.write(rows)
    assert CHATS.load_state(raw, child_store.fetch).log == [{"n": 0}, {"n": 1}]
    started.log.append({"n": 2})
    _, rows, _ = CHATS.round_trip(started, child_store.fetch, home=child)
    assert [(first, len(bodies)) for _, first, bodies in rows] == [(2, 1)]

    state.log.append({"n": 9})
    raw, rows, state = CHATS.round_trip(state, parent_store.fetch, home=parent)
    parent_store.write(rows)
    assert CHATS.load_state(raw, parent_store.fetch).log == [{"n": 0}, {"n": 1}, {"n": 9}]


def test_a_dump_can_be_repeated_until_it_is_committed() -> None:
    state = Chat()
    state.log.append({"n": 0})
    assert CHATS.dump_state(state) == CHATS.dump_state(state)


def test_missing_rows_are_an_error_not_a_shorter_log() -> None:
    store = Store()
    state = Chat()
    state.log.append({"n": 0})
    raw, _ = commit(store, state)
    store.rows.clear()
    with pytest.raises(StoreDamaged):
        list(CHATS.load_state(raw, store.fetch).log)


def test_outside_the_runtime_a_log_dumps_and_validates_as_a_list() -> None:
    chat = Chat.model_validate({"log": [{"n": 0}], "items": [{"name": "a"}]})
    assert chat.items[0] == Item(name="a")
    assert from_json(chat.model_dump_json())["log"] == [{"n": 0}]
    assert Chat.model_validate_json(chat.model_dump_json()) == chat
    assert chat.model_dump()["items"] == [{"name": "a", "price": None}]
    with pytest.raises(ValidationError):
        Chat.model_validate({"items": [{"nam": "a"}]})
    with pytest.raises(ValidationError):
        Chat.model_validate({"log": {"$log": []}})
    schema: Any = CHATS.schema
    assert schema["properties"]["items"]["items"] == {"$ref": "#/$defs/Item"}


def test_logs_work_in_dataclasses() -> None:
    codec = StateCodec[Plain](Plain)
    assert codec.has_logs
    state = Plain()
    state.log.append("a")
    _, rows, state = codec.round_trip(state, Store().fetch)
    assert ([bodies for _, _, bodies in rows], state.log) == ([[b'"a"']], ["a"])
    assert not StateCodec[Item](Item).has_logs


def test_a_list_assigned_to_a_log_field_is_named() -> None:
    chat = Chat()
    chat.log = []  # type: ignore[assignment]
    with pytest.raises(NotStorable) as caught:
        CHATS.dump_state(chat)
    assert "expected a Log" in caught.value.message
    assert caught.value.path == "log"
