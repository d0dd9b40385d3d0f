"""Whether a call in doubt has a probe to ask again: no control is offered that cannot be honoured (R40)."""

from __future__ import annotations

from typing import Final, cast

from standfast.abc import Tx
from standfast.records import Json
from standfast.rows import CallRow, RunRow

NO_PROBE: Final = "it has no probe"


def can_ask_again(tx: Tx, row: RunRow, call: CallRow) -> bool:
    """False where there is surely no probe: neither in the code that last took up the run, nor in the newest known.

    A new version of the code may bring a probe, so what was found when the call came into doubt does not settle it.
    """
    newest = tx.contract_of(row.agent)
    known = [tx.contract(row.doc.contract), None if newest is None else newest[1]]
    return not all(call.tool in _unprobed(contract) for contract in known)


def _unprobed(contract: Json | None) -> list[str]:
    """The tools that it says have none; nothing is known of a contract that was made before it was said."""
    return cast("list[str]", (contract or {}).get("unprobed") or [])
