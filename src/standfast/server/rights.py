"""Which right each route, verb and message of a socket asks for: one table, and every door looks here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from standfast.rights import Right

Asks: TypeAlias = Right | Literal["known", "nobody"]
"""A right; or `known`: whoever has shown who they are; or `nobody`: strangers too (the login page, probes)."""

VERBS: Final[Mapping[str, Right]] = {
    "pause": "pause",
    "resume": "pause",
    "step_once": "pause",
    "start": "redirect",
    "fork": "redirect",
    "redirect": "redirect",
    "message": "redirect",
    "resend": "redirect",
    "drop": "redirect",
    "edit": "redirect",
    "rewind": "redirect",
    "return_to": "redirect",
    "take_over": "redirect",
    "hand_back": "redirect",
    "perform": "redirect",
    "cancel": "cancel",
    "force": "cancel",
    "resolve": "resolve",
    "approve": "resolve",
    "deny": "resolve",
    "answer": "resolve",
    "abandon": "resolve",
}
ROUTES: Final[Mapping[str, Asks]] = {
    "agents": "view",
    "list": "view",
    "show": "view",
    "would_kill": "view",
    "state": "view",
    "transcript": "view",
    "receipt": "view",
    "stops": "forensics",
    "result": "view",
    "calls": "view",
    "call": "view",
    "record": "view",
    "events": "view",
    "all_events": "view",
    "agui": "view",  # and what its verbs ask for
    "agui_run": "view",  # and what its verbs ask for
    "halts": "view",
    "halt": "operator",
    "lift": "operator",
    "house": "forensics",
    "evidence": "forensics",
    "take_evidence": "forensics",
    "tokens": "operator",
    "make_token": "operator",
    "revoke_token": "operator",
    "me": "known",
    "healthz": "nobody",  # as orchestrators ask
    "readyz": "nobody",  # whoever may not view all runs is told no more than yes or no
    "openapi": "known",
    "socket": "known",  # and what each of its messages asks for
    "page": "known",
    "page_list": "known",
    "page_of_run": "known",
    "asset": "known",
    "client.js": "known",
    "bar.js": "known",
    "built.json": "known",
    "login": "nobody",
    "login.js": "nobody",
    "login.css": "nobody",
    "log_in": "nobody",
    "log_out": "nobody",
}
MESSAGES: Final[Mapping[str, Asks]] = {
    "watch": "view",
    "unwatch": "view",
    "list": "view",
    "verb": "known",  # and what the verb asks for
    "ping": "known",
}
MORE: Final[tuple[tuple[str, str, Right, str], ...]] = (
    ("resume", "budget", "resolve", "raises what the run may spend"),
    ("resume", "accept_stale", "resolve", "accepts a world that has changed"),
)
"""Arguments that ask for a right beside the verb's own."""
LETS_GO: Final = frozenset({"resume", "step_once"})
OF_PEOPLE: Final = frozenset({"user"})
"""Who lets a run go needs `resolve` beside it, if something else than a person's pause holds it."""
