"""Write docs/reference.md from the docstrings; with --check, only say whether it is up to date."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import standfast
import standfast.testing
from standfast import errors, events, records

PAGE = Path(__file__).with_name("reference.md")

SECTIONS: dict[str, list[str]] = {
    "Agents": [
        "agent",
        "Agent",
        "Pipeline",
        "LLMAgent",
        "Tripwire",
        "Chat",
        "Run",
        "Done",
        "Idle",
        "Again",
        "Plan",
        "PlanItem",
        "Interruption",
        "Message",
        "Frame",
        "OpenFrame",
    ],
    "State": ["Log", "Json"],
    "Tools": ["tool", "Tool", "Call", "Performed", "SchemaTool", "Toolbox"],
    "Inside a tool": ["idempotency_key", "use", "say", "spend", "progress", "stop_token", "run_process", "Completed"],
    "Calls that standfast performs": ["ask", "sleep", "child", "file_content"],
    "Runs from outside": [
        "Runtime",
        "Handle",
        "RunView",
        "Consequences",
        "Need",
        "Choice",
        "MailView",
        "CallRef",
        "Said",
        "Trip",
        "Halt",
    ],
    "What a verb takes and answers": [
        *("Answer", "Accepted", "Refused", "TooLate"),
        *("Happened", "NotHappened", "CheckAgain", "Budget", "Spent"),
    ],
    "Evidence": ["Notary", "Redactor", "Secret"],
    "Receipts": ["Receipt", "InFlight", "Undone", "Residue", "Mark", "StopRecord", "Moment"],
    "Events": ["Event", "TextDelta"],
}
METHODS: dict[str, tuple[str, ...]] = {  # () stands for all of them
    "Pipeline": ("stage",),
    "LLMAgent": ("with_model",),
    "Run": (),
    "Plan": ("current", "upcoming", "set", "add", "start", "done", "drop", "rewrite"),
    "Log": ("append", "extend"),
    "Tool": ("parse", "schema", "result_schema"),
    "Toolbox": ("tools", "refresh"),
    "Runtime": ("start", "handle", "list", "events", "halt", "lift", "halts", "forget", "signing"),
    "Handle": (),
    "OpenFrame": (),
}


def sentence(text: str | None, name: str) -> str:
    """The guarantee: the first sentence of a docstring."""
    if not text:
        raise SystemExit(f"{name} has no docstring: its first sentence is its guarantee")
    first = " ".join(text.strip().split("\n\n")[0].split())
    return first.replace("|", "\\|")


def alias_docs(module: ModuleType) -> dict[str, str]:
    """What is written below the aliases of a module, which have no docstrings of their own."""
    body = ast.parse(inspect.getsource(module)).body
    found: dict[str, str] = {}
    for line, below in pairwise(body):
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            match below:
                case ast.Expr(ast.Constant(str(text))):
                    found[line.target.id] = text
                case _:
                    pass
    return found


def guarantee(name: str, aliases: dict[str, str]) -> str:
    """What a public name promises."""
    if name in aliases:
        return sentence(aliases[name], name)
    thing: Any = getattr(standfast, name)
    return sentence(vars(thing).get("__doc__") if inspect.isclass(thing) else inspect.getdoc(thing), name)


def methods(cls: type[Any]) -> Iterator[tuple[str, str]]:
    """The methods of a class that users call, with their guarantees."""
    wanted = METHODS[cls.__name__]
    ours = [one for one in cls.__mro__ if one.__module__.startswith("standfast.")]
    for name, thing in (item for one in ours for item in vars(one).items()):
        if name.startswith("_") or (wanted and name not in wanted):
            continue
        if isinstance(thing, property | cached_property):
            yield name, sentence(thing.__doc__, f"{cls.__name__}.{name}")
        elif inspect.isfunction(thing):
            yield f"{name}()", sentence(thing.__doc__, f"{cls.__name__}.{name}")


def table(rows: Iterable[tuple[str, str]]) -> list[str]:
    """A table of names and guarantees."""
    return ["| name | guarantee |", "|---|---|", *(f"| `{name}` | {says} |" for name, says in rows), ""]


def rows(names: list[str]) -> Iterator[tuple[str, str]]:
    """Names, each followed by its methods, with their guarantees."""
    aliases = {**alias_docs(records), **alias_docs(events)}
    for name in names:
        yield name, guarantee(name, aliases)
        if name in METHODS:
            yield from ((f"{name}.{method}", says) for method, says in methods(getattr(standfast, name)))


def page() -> str:
    """The whole page; every public name must have its place."""
    error_names = [name for name in vars(errors) if name in standfast.__all__]
    placed = sorted({*(name for names in SECTIONS.values() for name in names), *error_names})
    if placed != standfast.__all__:
        raise SystemExit(f"give these a section: {sorted(set(placed) ^ set(standfast.__all__))}")
    lines = ["# Every public name", "", "Generated from the docstrings by `docs/generate_reference.py`.", ""]
    for title, names in SECTIONS.items():
        lines += [f"## {title}", "", *table(rows(names))]
    testing = standfast.testing
    lines += ["## Tests of one's own agents: `standfast.testing`", ""]
    lines += table((name, sentence(getattr(testing, name).__doc__, name)) for name in testing.__all__)
    tree = (errors.__doc__ or "").partition("\n\n")[2].strip()
    lines += ["## Errors", "", "```", tree, "```", "", *table(rows(error_names))]
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """0 if the page is up to date, or has been brought up to date."""
    new = page()
    if arguments == ["--check"]:
        same = PAGE.exists() and PAGE.read_text(encoding="utf-8") == new
        if not same:
            sys.stderr.write(f"docs/{PAGE.name} is out of date: run python docs/{Path(__file__).name}\n")
        return int(not same)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
