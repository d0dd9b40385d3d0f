"""What a run does and is told, in SQLite: its calls and its mail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import from_json, to_json

from standfast.lazily import adapter
from standfast.records import Effect
from standfast.rows import CallRow, MailRow
from standfast.stores.queries import queries
from standfast.stores.sqlite_house import SqliteHouse, unreadable
from standfast.ways import token_of

_Q = queries()
_mail: TypeAdapter[MailRow] = adapter(MailRow)
_CALL_COLUMNS = ("n", "run", "id", "epoch", "step", "status", "effect", "settles", "undo", "args", "before", "result")


class SqliteCalls(SqliteHouse):
    """The part of a transaction that concerns calls and mail."""

    __slots__ = ()

    # --- calls ----------------------------------------------------------------------------

    def insert_call(self, call: CallRow) -> None:
        self._c.execute(
            _Q["insert_call"],
            (
                *(call.run, call.id, call.epoch, call.step, call.status, call.effect, call.settles, call.undo),
                *(_call_doc(call), call.args, call.before, call.result),
            ),
        )

    def update_call(self, call: CallRow) -> None:
        self._c.execute(
            _Q["update_call"],
            (call.status, call.undo, _call_doc(call), call.args, call.before, call.result, call.run, call.id),
        )

    def call(self, n: int, id: str) -> CallRow | None:  # noqa: A002
        found = self._c.execute(_Q["call_by_id"], (n, id)).fetchone()
        return None if found is None else _call(found)

    def calls_of_step(self, n: int, epoch: int, step: int) -> list[CallRow]:
        return [_call(r) for r in self._c.execute(_Q["calls_of_step"], (n, epoch, step)).fetchall()]

    def move_step(self, n: int, epoch: int, step: int) -> None:
        self._c.execute(_Q["move_step"], (step + 1, n, epoch, step))

    def calls(self, n: int) -> list[CallRow]:
        return [_call(r) for r in self._c.execute(_Q["calls_of_run"], (n,)).fetchall()]

    def ledger(self, n: int) -> list[CallRow]:
        return [_call(r) for r in self._c.execute(_Q["ledger"], (n,)).fetchall()]

    def at_stake(self, n: int, epoch: int, step: int) -> list[CallRow]:
        return [_call(r) for r in self._c.execute(_Q["at_stake"], (n, epoch, step)).fetchall()]

    def open_calls(self, n: int) -> list[CallRow]:
        return [_call(r) for r in self._c.execute(_Q["open_calls"], (n,)).fetchall()]

    # --- mail ------------------------------------------------------------------------------

    def insert_mail(self, mail: MailRow) -> None:
        if self.route:
            mail.route, mail.by_token = str(self.route), token_of(self.route)
        self._c.execute(_Q["insert_mail"], (mail.run, mail.id, mail.status, to_json(mail)))

    def update_mail(self, mail: MailRow) -> None:
        self._c.execute(_Q["update_mail"], (mail.status, to_json(mail), mail.id))

    def pending_mail(self, n: int) -> list[MailRow]:
        return [_letter(r[0]) for r in self._c.execute(_Q["pending_mail"], (n,)).fetchall()]

    def unread_mail(self, n: int, but: Sequence[str]) -> tuple[int, int]:
        count, size = self._c.execute(_Q["unread_mail"], (n, to_json(but).decode())).fetchone()
        return count, int(size)

    def mail(self, n: int) -> list[MailRow]:
        return [_letter(r[0]) for r in self._c.execute(_Q["mail_of_run"], (n,)).fetchall()]


def _letter(raw: bytes) -> MailRow:
    try:
        return _mail.validate_json(raw)
    except ValueError as error:
        raise unreadable("a piece of mail", error) from error


def _call_doc(call: CallRow) -> bytes:
    doc: dict[str, Any] = {name: getattr(call, name) for name in CallRow.__slots__ if name not in _CALL_COLUMNS}
    doc["default"] = None if call.default is None else call.default.decode()
    return to_json(doc)


def _call(r: Any) -> CallRow:
    try:
        return _call_of(r)
    except (KeyError, TypeError, ValueError) as error:
        raise unreadable(f"the row of call {r[2]!r}", error) from error


def _call_of(r: Any) -> CallRow:
    effect: Effect = r[6]
    doc: dict[str, Any] = from_json(r[9])
    if doc["default"] is not None:
        doc["default"] = doc["default"].encode()
    return CallRow(
        n=r[0],
        run=r[1],
        id=r[2],
        epoch=r[3],
        step=r[4],
        status=r[5],
        effect=effect,
        settles=r[7],
        undo=r[8],
        args=bytes(r[10]),
        before=None if r[11] is None else bytes(r[11]),
        result=None if r[12] is None else bytes(r[12]),
        **doc,
    )
