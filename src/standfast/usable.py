"""What a model may use: a tool, or another agent as a tool."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, cast

from standfast.agents import as_agent
from standfast.builtin_calls import child
from standfast.codec import from_json
from standfast.errors import BadTool, Misuse, StandfastError
from standfast.replies import ToolSpec
from standfast.toolbox import Toolbox
from standfast.tools import Call, Tool


@dataclass(frozen=True, slots=True)
class Usable:
    """A name that a model may ask for, and the call that comes of it."""

    spec: ToolSpec
    call: Callable[[str], Call[Any]]
    """The call with arguments as the model wrote them; StandfastError says what is wrong with them."""

    @property
    def name(self) -> str:
        return self.spec.name


def usables(tools: Iterable[Any]) -> list[Usable]:
    """Tools and agents as a model may use them; BadTool for two of one name."""
    found = [_usable(one) for one in opened(tools)]
    names = [one.name for one in found]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise BadTool(f"two tools are called {sorted(twice)[0]!r}", hint="a model asks by name: rename one of them")
    return found


def opened(tools: Iterable[Any]) -> list[Any]:
    """Tools and agents, with what is in toolboxes now in their place."""
    if not isinstance(tools, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance] - people without a checker
        raise Misuse(f"tools={tools!r} is no list of tools", hint="give a list, also of one: tools=[search]")
    return [each for one in tools for each in (one.tools if isinstance(one, Toolbox) else [one])]


def _usable(given: Any) -> Usable:
    if isinstance(given, Tool):
        tool = cast("Tool[..., Any]", given)
        schema = {key: value for key, value in tool.schema.items() if key != "description"}
        return Usable(ToolSpec(_for_models(tool.name), str(tool.schema.get("description", "")), schema), tool.parse)
    try:
        agent = as_agent(given)
    except Misuse as error:
        raise Misuse(f"{given!r} is no tool", hint="give tools made by @tool, or agents") from error

    def call(arguments: str) -> Call[Any]:
        try:
            state = agent.state_codec.accept(from_json(arguments or "{}"))
        except (ValueError, StandfastError) as error:
            raise Misuse(f"{agent.name} cannot be started so: {error}", hint="see its schema") from error
        return child(agent, state)

    return Usable(ToolSpec(_for_models(agent.name), agent.description, agent.schema_for_models), call)


def _for_models(name: str) -> str:
    """The name as providers take it: letters, digits, _ and -, at most 64 of them."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64]
