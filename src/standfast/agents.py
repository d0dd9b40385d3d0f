"""@agent: one turn of a loop, with everything a runtime must know to drive it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    TypeGuard,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import JsonValue

from standfast import arguments
from standfast import budget as budgets
from standfast.codec import Codec, StateCodec, fingerprint
from standfast.differing import line_marks
from standfast.equal_writes import DEFAULT as EQUAL_WRITES
from standfast.errors import BadTool, Misuse, NotStorable
from standfast.records import Budget, Done, Idle, Json, MailKind, PlanItem
from standfast.redirect_reading import may_read_redirects
from standfast.stack import Limits
from standfast.taking_text import must_take_text
from standfast.toolbox import Toolbox
from standfast.tools import Tool
from standfast.tools_of import tools_of

if TYPE_CHECKING:
    from standfast.run import Run

S = TypeVar("S")
R = TypeVar("R")

Migrate = Callable[[Json], Any]
DEFAULT_BUDGET = Budget(steps=1000)


def _tools_given(tools: Sequence[Tool[..., Any]]) -> list[Tool[..., Any]]:
    """A list of tools, or Misuse: a name that is wrong here would be missed when something is to be undone."""
    given: Any = tools
    if isinstance(given, str | Tool) or not isinstance(given, Sequence):
        raise Misuse(f"tools={given!r} is not a list of tools", hint="give a list, also of one: tools=[search]")
    for one in tools:
        if not isinstance(one, Tool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise Misuse(f"tools=[..., {one!r}]: this is not a tool", hint="decorate the function with @tool")
    return list(tools)


class Agent(Generic[S, R]):
    """A named step function, its state type and its promises."""

    def __init__(
        self,
        name: str,
        step: Callable[[Run[S]], Awaitable[Done[R] | Idle | None]],
        *,
        state: type[S],
        result: Any,
        version: str | None = None,
        migrate: Migrate | None = None,
        budget: Budget | None = None,
        on_error: Literal["pause", "fail"] = "pause",
        redirects: bool = True,
        concurrency: int | None = None,
        tools: Sequence[Tool[..., Any]] = (),
        plan: Callable[[], Sequence[PlanItem]] = tuple,
        functions: Callable[[], Sequence[Callable[..., Any]]] | None = None,
        turn_for_unread: Collection[MailKind] = (),
        description: str = "",
        instructions: str = "",
        text_field: str = "",
        max_frames: int = 4,
        frame_expiry: float = 1800.0,
        max_held_tokens: int | None = None,
        equal_writes: int | None = EQUAL_WRITES,
    ) -> None:
        if not arguments.text("the name of an agent", name) or name != name.strip():
            raise Misuse(f"{name!r} is no name for an agent", hint="give it a short word, it is shown to people")
        if on_error not in ("pause", "fail"):
            raise Misuse(f"on_error={on_error!r} is unknown", hint='use "pause" or "fail"')
        if concurrency is not None and arguments.whole("concurrency", concurrency, "leave it out for no limit") < 1:
            raise Misuse("concurrency must be at least 1", hint="leave it out for no limit")
        if equal_writes is not None and arguments.whole("equal_writes", equal_writes, "give None for no limit") < 1:
            raise Misuse("equal_writes must be at least 1", hint="give None for no limit")
        if not _is_type(state):
            raise Misuse(f"{state!r} is no type of a state", hint="give the class of a pydantic model or a dataclass")
        self.name = name
        self.step = step
        self.state_type = state
        self.result_type = result
        self.version = version
        self.migrate = migrate
        self.budget = DEFAULT_BUDGET if budget is None else budgets.given(budget)
        self.on_error = on_error
        self.redirects = redirects
        self.concurrency = concurrency
        self.equal_writes = equal_writes  # in how many steps in a row the same write may be made; None: in any number
        self.plan = plan
        self.turn_for_unread = turn_for_unread  # mail that gets one more turn, whether or not any was read before
        self.description = description or inspect.getdoc(step) or ""
        self.instructions = instructions
        self.text_field = text_field  # the field of the state that a text given to start() is for; "": see taking_text
        if text_field:
            must_take_text(name, text_field, self.state_codec.schema)
        self.limits = Limits(max_frames, frame_expiry, max_held_tokens)
        self._given_tools = _tools_given(tools)
        self._functions = functions or (lambda: [step])
        self._seen: dict[str, Tool[..., Any]] = {}
        self._contracted: tuple[list[int], Json, str] | None = None

    @cached_property
    def state_codec(self) -> StateCodec[S]:
        return StateCodec(self.state_type)

    @cached_property
    def result_codec(self) -> Codec[R]:
        return Codec(self.result_type)

    def dump_result(self, result: R) -> bytes:
        """What Done holds, as JSON; NotStorable names the return annotation where that does not say what it is."""
        try:
            return self.result_codec.dump(result)
        except NotStorable as error:
            if error.path or not _fits_its_own_type(result):
                raise  # no annotation would help
            held = "None" if result is None else type(result).__name__
            raise NotStorable(
                f"agent {self.name!r} returned Done with a {held}, but the return annotation of its step "
                f"{self._annotated or f'says otherwise: {error.message}'}",
                hint=f"write what Done holds: `-> Done[{held}] | None`",
            ) from error

    @property
    def _annotated(self) -> str:
        """What the return annotation lacks, if it names no result."""
        if "return" not in inspect.get_annotations(self.step):
            return "is missing"
        return "names no result" if self.result_type is NoneType else ""

    @cached_property
    def tools(self) -> dict[str, Tool[..., Any]]:
        """The tools this agent can reach: given to it, or named in its code. A name means one of them."""
        found: dict[str, Tool[..., Any]] = {}
        for one in (*tools_of(self._functions()), *self._given_tools):
            if found.setdefault(one.name, one) is not one:
                raise self._two_of(one.name)
        return found

    def tool(self, name: str) -> Tool[..., Any] | None:
        """A tool by the name the store knows it by; None if this process has no such code."""
        return self._seen.get(name) or self.tools.get(name)

    def saw(self, tool: Tool[..., Any]) -> None:
        """Remember a tool that no reading of the code would have found; a step may make the same one anew."""
        known = self.tool(tool.name)
        if known is not None and known is not tool and not known.same_code(tool):
            raise self._two_of(tool.name)
        self._seen[tool.name] = tool

    def _two_of(self, name: str) -> BadTool:
        return BadTool(
            f"agent {self.name} has two tools called {name!r}",
            hint="a call is undone and looked up by its tool's name: give one of them another, @tool(name=...), "
            "or the tools of a server a prefix",
        )

    @cached_property
    def toolboxes(self) -> list[Toolbox]:
        """Where its tools come from that were made at run time, and may change."""
        return list({id(box): box for tool in self.tools.values() if (box := tool.toolbox) is not None}.values())

    def must_be_complete(self) -> None:
        """Misuse if there is nothing that it could do."""

    def _may_read_redirects(self) -> bool:
        """Could any of its code? Of stages each says so for itself."""
        functions = self._functions()
        return bool(self.plan()) or not functions or any(may_read_redirects(one) for one in functions)

    def fit_plan(self, items: list[PlanItem], shown: Sequence[PlanItem], known: Mapping[str, str]) -> list[PlanItem]:
        """The plan of a snapshot as this code goes on with it; `shown` is what people see of the step in progress."""
        del shown, known
        return items

    def plan_difference(
        self, old: Sequence[tuple[str, str]], items: list[PlanItem], shown: Sequence[PlanItem], known: Mapping[str, str]
    ) -> str:
        """How its plan differs from that of the contract a run was left with, in words; empty if it does not."""
        del items, shown, known
        return "" if list(old) == [(item.id, item.title) for item in self.plan()] else "the plan has changed"

    @property
    def contract(self) -> Json:
        """What a paused run relies on; compared when it is resumed."""
        return self._contract()[1]

    @property
    def contract_id(self) -> str:
        return self._contract()[2]

    def _contract(self) -> tuple[list[int], Json, str]:
        """The contract as the toolboxes are now; made again only when one of them has changed."""
        revisions = [box.revision for box in self.toolboxes]
        if self._contracted is None or self._contracted[0] != revisions:
            contract = self._make_contract()
            self._contracted = revisions, contract, fingerprint(contract)
        return self._contracted

    def _make_contract(self) -> Json:
        here = sorted((name, one) for name, one in self.tools.items() if not one.gone)
        tools: dict[str, JsonValue] = {name: cast("JsonValue", one.contract) for name, one in here}
        fixed = [item.id for item in self.plan() if not item.redirects]
        unprobed = [name for name, one in here if one.probe is None and one.effect in ("write", "irreversible")]
        return {
            "agent": self.name,
            "version": self.version,
            "state": cast("JsonValue", self.state_codec.schema),
            "result": cast("JsonValue", self.result_codec.schema),
            "tools": tools,
            "redirects": self.redirects,
            "budget": cast("JsonValue", asdict(self.budget)),
            "frames": cast("JsonValue", self.limits.contract),
            "plan": [[item.id, item.title] for item in self.plan()],
            **({"no_redirects": cast("JsonValue", fixed)} if fixed else {}),
            **({"unprobed": cast("JsonValue", unprobed)} if unprobed else {}),
            **({} if self._may_read_redirects() else {"reads_redirects": False}),
            **(
                {
                    "instructions": fingerprint(self.instructions),
                    "instruction_lines": cast("JsonValue", line_marks(self.instructions)),
                }
                if self.instructions
                else {}
            ),
            **({"text_field": self.text_field} if self.text_field else {}),
        }

    @property
    def schema_for_models(self) -> Json:
        """What a model must say to hand this agent a task."""
        return self.state_codec.schema

    def __repr__(self) -> str:
        return f"<agent {self.name}>"


def contract_plan(contract: Json) -> list[PlanItem]:
    """The plan in a contract, for a process that has no more of the agent than that."""
    items = cast("list[tuple[str, str]]", contract.get("plan") or [])
    fixed = cast("list[str]", contract.get("no_redirects") or [])
    return [PlanItem(id_, title, redirects=id_ not in fixed) for id_, title in items]


def contract_budget(contract: Json) -> Budget:
    """The budget in a contract, for a process that has no more of the agent than that."""
    caps = cast("dict[str, Any] | None", contract.get("budget"))
    return DEFAULT_BUDGET if caps is None else Budget(**caps)


def agent(
    name: str,
    *,
    version: str | None = None,
    migrate: Migrate | None = None,
    budget: Budget | None = None,
    on_error: Literal["pause", "fail"] = "pause",
    redirects: bool = True,
    concurrency: int | None = None,
    tools: Sequence[Tool[..., Any]] = (),
    max_frames: int = 4,
    frame_expiry: float = 1800.0,
    max_held_tokens: int | None = None,
    equal_writes: int | None = EQUAL_WRITES,
    text_field: str | None = None,
) -> Callable[[Callable[[Run[S]], Coroutine[Any, Any, Done[R] | Idle | None]]], Agent[S, R]]:
    """Make an agent of one turn of your loop: `async def step(run: Run[S]) -> Done[R] | Idle | None`."""
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise Misuse(f"{name!r} is no name for an agent", hint='name it in the decorator: @agent("name")')

    def decorate(step: Callable[[Run[S]], Coroutine[Any, Any, Done[R] | Idle | None]]) -> Agent[S, R]:
        if not inspect.iscoroutinefunction(step):
            raise Misuse(f"{step!r} is no async function", hint="a step is `async def step(run: Run[State])`")
        state, result = step_types(step)
        return Agent(
            name,
            step,
            state=state,
            result=result,
            version=version,
            migrate=migrate,
            budget=budget,
            on_error=on_error,
            redirects=redirects,
            concurrency=concurrency,
            tools=tools,
            max_frames=max_frames,
            frame_expiry=frame_expiry,
            max_held_tokens=max_held_tokens,
            equal_writes=equal_writes,
            text_field=text_field or "",
        )

    return decorate


def _is_agent(thing: object) -> TypeGuard[Agent[Any, Any]]:
    return isinstance(thing, Agent)


def _is_type(given: object) -> bool:
    return callable(given) or get_origin(given) is not None


def _fits_its_own_type(value: Any) -> bool:
    try:
        own: Codec[Any] = Codec(type(value))
        own.dump(value)
    except NotStorable:
        return False
    return True


def as_agent(given: Any) -> Agent[Any, Any]:
    """An agent, from whatever carries one (a Pipeline does)."""
    for one in (given, getattr(given, "agent", None)):
        if _is_agent(one):
            one.must_be_complete()
            return one
    raise Misuse(f"{given!r} is no agent", hint="decorate its step with @agent(...), or make a Pipeline")


def step_types(step: Callable[..., Any]) -> tuple[Any, Any]:
    """The state and result types a step declares."""
    try:
        hints = get_type_hints(step, localns=_local_names(step))
    except NameError as error:
        raise Misuse(
            f"the types of {step.__qualname__} cannot be read: {error}",
            hint="define the state class where the step function can see it, at module level",
        ) from error
    parameters = list(inspect.signature(step).parameters)
    given = hints.get(parameters[0]) if parameters else None
    if given is None or not get_args(given) or getattr(get_origin(given), "__name__", "") != "Run":
        raise Misuse(
            f"{step.__qualname__} does not say what its state is",
            hint="annotate its first parameter: `run: Run[State]`",
        )
    returns = hints.get("return", Any)
    options = get_args(returns) if get_origin(returns) in (Union, UnionType) else (returns,)
    results = [get_args(o)[0] if get_args(o) else Any for o in options if (get_origin(o) or o) is Done]
    result: Any = Union[tuple(results)] if results else NoneType  # noqa: UP007 - built at run time
    return get_args(given)[0], result


class _RunByName(Generic[S]):
    """Stands for Run, which is a layer above, where a step imports it for its checker only."""


_RunByName.__name__ = "Run"


def _local_names(step: Callable[..., Any]) -> dict[str, Any]:
    """Names from an enclosing function, so that agents defined inside tests can be typed."""
    names: dict[str, Any] = {"Run": _RunByName}
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_name != "<module>" and frame.f_globals is getattr(step, "__globals__", None):
            for key, value in frame.f_locals.items():
                names.setdefault(key, value)
        frame = frame.f_back
    return names
