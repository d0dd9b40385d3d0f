"""Every route, every verb and every message has exactly one right, in one table (R13, R34)."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Route, WebSocketRoute

from standfast import Runtime
from standfast.errors import Misuse
from standfast.rights import MEANING, RIGHTS
from standfast.server import Actor, Keys, control_app, rights, socket
from standfast.server.sessions import Sessions
from standfast.server.verbs import VERBS


async def nobody(_: Any) -> Actor | None:
    return None


async def test_every_route_is_in_the_table_of_rights(tmp_path: Path) -> None:
    async with Runtime(tmp_path / "x.db", drive=False) as runs:
        sessions = Sessions("t" * 20, tmp_path / "s", Keys(runs), secure=False, cookie="c")
        app = control_app(runs, who=nobody, routes=sessions.routes())
        names = [route.name for route in app.routes if isinstance(route, Route | WebSocketRoute)]
        await app.state.surface.close()
    assert len(names) == len(app.routes)
    for name in names:
        assert (name in rights.ROUTES) + (name in rights.VERBS) == 1, name
    assert set(rights.ROUTES) | set(rights.VERBS) == set(names), "a right for something that is not there"


def test_every_verb_is_in_the_table_of_rights() -> None:
    assert set(rights.VERBS) == {*VERBS, "start", "fork", "force"}
    assert set(rights.VERBS.values()) <= set(RIGHTS)
    for verb, argument, _, _ in rights.MORE:
        assert argument in VERBS[verb].asks.model_fields


def test_every_message_of_a_socket_is_in_the_table_of_rights() -> None:
    tree = ast.parse(inspect.getsource(socket))
    heeded = {
        case.pattern.value.value
        for match in ast.walk(tree)
        if isinstance(match, ast.Match)
        for case in match.cases
        if isinstance(case.pattern, ast.MatchValue) and isinstance(case.pattern.value, ast.Constant)
    }
    assert heeded == set(rights.MESSAGES)


def test_there_are_seven_rights_and_each_is_explained() -> None:
    assert RIGHTS == ("view", "pause", "redirect", "cancel", "resolve", "forensics", "operator")
    assert set(MEANING) == set(RIGHTS)


def test_a_right_that_does_not_exist_is_refused_at_once() -> None:
    with pytest.raises(Misuse, match="'look' is no right"):
        Actor("ann", frozenset({"look"}))
    with pytest.raises(Misuse, match="not both"):
        Actor("ann", runs=frozenset({"r"}), labels=(("team", "a"),))
