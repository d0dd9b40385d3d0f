"""The verbs as they are asked from afar: their arguments, and how each is handed to a run's handle."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeAlias, cast

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
    ValidationError,
)

from standfast import arguments, control, verbs
from standfast.abc import Tx
from standfast.control import Ask
from standfast.errors import Misuse
from standfast.handle import Handle
from standfast.json_values import is_object
from standfast.lazily import adapter
from standfast.records import (
    Accepted,
    Answer,
    CheckAgain,
    Decision,
    Hand,
    Happened,
    Json,
    Mark,
    NotHappened,
    Undo,
    When,
)
from standfast.runtime import Runtime
from standfast.server.actors import Actor

BIGGEST: Final = 2**53 - 1  # what every JSON reader keeps exactly
Count: TypeAlias = Annotated[int, Field(ge=0, le=BIGGEST)]
Step: TypeAlias = Annotated[int, Field(ge=-BIGGEST, le=BIGGEST)]
LONGEST_KEY: Final = 200
LONGEST_ID: Final = 1_000  # of runs, calls, thoughts, tools and agents as requests name them
LONGEST_TEXT: Final = 200_000  # of what is said to a run
Key: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_KEY)]
Named: TypeAlias = Annotated[str, StringConstraints(max_length=LONGEST_ID)]
Text: TypeAlias = Annotated[str, StringConstraints(max_length=LONGEST_TEXT)]


def _short_enough(given: Any) -> Any:
    """No reason is so long that a stop would be refused for it: what is too much is left out, and that is said."""
    return arguments.shortened(given) if isinstance(given, str) else given


def _readable(given: Any) -> Any:
    """No mark is so odd that a stop would be refused for it: one that cannot be read marks where the text ends."""
    if isinstance(given, bool):
        return given
    try:
        mark = _marks.validate_python(given)
    except ValidationError:
        return bool(given)
    return mark if 0 <= mark.offset <= BIGGEST and len(mark.call) <= LONGEST_ID else True


_marks = adapter(Mark)
Reason: TypeAlias = Annotated[str, BeforeValidator(_short_enough)]


NO_TEXT: Final = "(the reason that was given is no text, and left out)"


def stop_args(args: Any, null: str = "") -> Any:
    """The arguments of a stop, not refused for its reason: one that is no text is left out, and that is said."""
    if not is_object(args) or isinstance(args.get("reason", ""), str):
        return args
    return {**args, "reason": null if args["reason"] is None else NO_TEXT}


class Asked(BaseModel):
    """What every verb takes beside its own arguments."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    reason: Reason = Field("", description="why; kept in the record")
    request_id: Key | None = Field(None, description="asked again with the same id, the first answer is given again")
    if_seq: Count | None = Field(None, description="only if the run is still at this seq")


class Stopping(Asked):
    """What the verbs take that stop what a run is doing."""

    trigger: Hand = Field("api", description="what it was asked with, as the client tells it; kept in the record")


class Pause(Stopping):
    pass


class StepOnce(Asked):
    pass


class Resume(Asked):
    note: Text | None = None
    accept_stale: bool = False
    budget: Json | None = Field(None, description="absolute caps: steps, calls, tokens, cost, seconds, repeats")


class Redirect(Stopping):
    text: Text
    when: Literal["now", "next"] = "now"
    from_step: Step | Named | None = Field(None, description="a step, or a plan item's id: what came later is undone")


class Message(Asked):
    text: Text
    data: JsonValue = None
    when: When = "next"


class Cancel(Stopping):
    undo: Undo = "step"
    soft: bool = False
    suspicious: Annotated[bool | Mark, BeforeValidator(_readable)] = Field(
        False, description="mark the transcript: at the place that was read, {call, offset}, or (true) where it ends"
    )


class Edit(Asked):
    patch: Json = Field(description="a JSON Merge Patch on the state")


class Resolve(Asked):
    call_id: Named
    decision: Literal["happened", "not_happened", "check_again"]
    result: JsonValue = Field(None, description="what the call gave, if it happened")


class Approve(Asked):
    call_id: Named
    args: Json | None = None


class Deny(Asked):
    call_id: Named


class Answering(Asked):
    call_id: Named
    value: JsonValue


class Unread(Asked):
    mail: Named = Field(description="the id of the redirect that was not read, as its need names it")


class Abandon(Asked):
    frame: Named


class ReturnTo(Asked):
    frame: Named


class Rewind(Stopping):
    to: Step | Named


class HandBack(Asked):
    note: Text = ""


class Perform(Asked):
    tool: Named
    args: Json = {}


class Fork(BaseModel):
    """A new run from a snapshot of another."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    at: Step | None = Field(None, description="the step; default: the current one")
    state: Json | None = Field(None, description="a changed state to begin with")
    id: Key | None = None
    reason: Reason = ""
    request_id: Key | None = None


class Start(BaseModel):
    """A new run."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    agent: Named
    state: Json | str = Field({}, description="as the agent's schema says; a text where it takes one")
    id: Key | None = None
    reason: Reason = ""
    budget: Json | None = None
    labels: dict[str, str] | None = None
    deadline: float | None = Field(None, description="seconds since the epoch: the run is cancelled then")
    request_id: Key | None = None


Act: TypeAlias = Callable[[Runtime, Handle[Any], Any, dict[str, Any]], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb: what it takes, and what it does."""

    name: str
    asks: type[Asked]
    act: Act
    summary: str


def _decision(ask: Resolve) -> Decision:
    if ask.decision == "happened":
        return Happened(ask.result)
    return NotHappened() if ask.decision == "not_happened" else CheckAgain()


async def _resolve(_: Runtime, run: Handle[Any], ask: Resolve, who: dict[str, Any]) -> Answer:
    return await run.resolve(ask.call_id, _decision(ask), **who)


async def _perform(runs: Runtime, run: Handle[Any], ask: Perform, who: dict[str, Any]) -> Answer:
    """Accepted once it is certain to be performed; what came of it is the event person_acted."""
    what = control.what_is_asked(who["by"], who["reason"], [ask.tool, ask.args]) if who["request_id"] else ""
    order, asked = runs.ids.mail(), Ask(**who, at=runs.clock.now(), asked=what)
    act = verbs.perform(ask.tool, ask.args, order)

    def carried_out(tx: Tx) -> Answer:
        return control.carry_out(tx, run.id, "perform", asked, act)

    return await runs.control(control.by_route(run.route, carried_out))


def _by_its_name(name: str) -> Act:
    """The handle's own method, with the arguments the request has beside the common ones."""

    async def act(_: Runtime, run: Handle[Any], ask: Asked, who: dict[str, Any]) -> Answer:
        own = {field: getattr(ask, field) for field in type(ask).model_fields if field not in Asked.model_fields}
        method: Callable[..., Awaitable[Any]] = getattr(run, name)
        answer = await method(**own, **who)
        return cast("Answer", answer)

    return act


def _verb(name: str, asks: type[Asked], summary: str, act: Act | None = None) -> Verb:
    return Verb(name, asks, act or _by_its_name(name), summary)


_ALL = (
    _verb("pause", Pause, "No further call begins; held at once, or once an effect in flight has ended"),
    _verb("resume", Resume, "Go on where the run was held"),
    _verb("step_once", StepOnce, "Take one step of a paused run, then pause again"),
    _verb("redirect", Redirect, "Rewrite what the agent does next"),
    _verb("message", Message, "Tell the agent something beside its task"),
    _verb("resend", Unread, "Send a redirect that was not read again, to the next step"),
    _verb("drop", Unread, "Give a redirect that was not read back to its sender"),
    _verb("cancel", Cancel, "Nothing new is admitted; what is in flight is cut and undone"),
    _verb("edit", Edit, "Change the state of a paused run"),
    _verb("resolve", Resolve, "Say what became of a call in doubt", cast("Act", _resolve)),
    _verb("approve", Approve, "Let a call pass that asks first"),
    _verb("deny", Deny, "Refuse a call that asks first"),
    _verb("answer", Answering, "Answer a question of the run"),
    _verb("abandon", Abandon, "Give up a thought of the run"),
    _verb("return_to", ReturnTo, "Send the run back to a thought on hold"),
    _verb("rewind", Rewind, "Undo a step and everything later, and hold the run before it"),
    _verb("take_over", Pause, "A person acts in the run from now on"),
    _verb("hand_back", HandBack, "The agent goes on where the person left it"),
    _verb("perform", Perform, "A person performs a tool during a take-over", cast("Act", _perform)),
)
VERBS: Final[Mapping[str, Verb]] = {verb.name: verb for verb in _ALL}
EVERY_VERB: Final = ("start", "fork", *VERBS, "force")


async def carry_out(runs: Runtime, run: str, verb: Verb, ask: Asked, actor: Actor) -> Answer:
    """Hand a verb to the run, in the actor's name."""
    who: dict[str, Any] = {"by": actor.name, "reason": ask.reason, "request_id": ask.request_id, "if_seq": ask.if_seq}
    if verb.name == "abandon" and not ask.reason:
        raise Misuse("a thought is not abandoned without a reason", hint="give a reason; the run was not changed")
    answer = await verb.act(runs, runs.handle(run, actor.route), ask, who)
    assert isinstance(answer, Accepted) or not answer
    return answer
