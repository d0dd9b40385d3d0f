"""LLMAgent: a ready loop of model and tools, with plan, redirect and messages. An ordinary step function.

One step asks the model, the next performs what it asked for: each ends in a boundary of its own, so that a redirect
in the middle of the tools finds the model's words kept, and every tool it asked for with a truthful result.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Generic, Literal, TypeVar, cast, overload

from pydantic_core import from_json, to_json

from standfast import arguments
from standfast.abc import Model
from standfast.agents import Agent, Migrate
from standfast.chat import AskedTool, Chat
from standfast.dialects import assistant_message, tool_result, user_message
from standfast.equal_writes import DEFAULT as EQUAL_WRITES
from standfast.errors import Misuse, NoAnswer
from standfast.final_answer import Answer, FinalAnswer
from standfast.json_values import is_object
from standfast.keeping_plan import PLAN_WORDS, UPDATE_PLAN, keep_plan
from standfast.llm_frames import answer as answer_message
from standfast.llm_frames import begin_task, end_task, go_back, keep_in_step, on_message, take_up, tell_orders
from standfast.records import Budget, Done, Json, Message
from standfast.replies import Reply, ToolCall
from standfast.run import Run
from standfast.tool_use import WHY_CHARACTERS, ToolUse
from standfast.tripwire import Tripwire, chosen
from standfast.usable import opened, usables

R = TypeVar("R")

DEFAULT_BUDGET = Budget(steps=1000, repeats=10)
MOST_REMINDERS = 3
MOST_PIECES = 8  # of an answer that the provider cuts for its length
_CUT_FOR_LENGTH = frozenset({"length", "max_tokens", "max_output_tokens"})
_WITHHELD_REDIRECTED = "a person has redirected the run"
_WITHHELD_URGENT = "a message came that is answered first; ask again if it is still wanted"


class LLMAgent(Agent[Chat, R], Generic[R]):
    """An agent that thinks with a model. `start(agent, "text")` gives it a task."""

    @overload
    def __init__(
        self: LLMAgent[str],
        name: str,
        *,
        model: Model,
        tools: Sequence[Any] = ...,
        instructions: str = ...,
        budget: Budget | None = ...,
        max_frames: int = ...,
        frame_expiry: float = ...,
        max_held_tokens: int | None = ...,
        equal_writes: int | None = ...,
        plan: bool = ...,
        version: str | None = ...,
        migrate: Migrate | None = ...,
        on_error: Literal["pause", "fail"] = ...,
        concurrency: int | None = ...,
        description: str = ...,
        options: dict[str, Any] | None = ...,
        tripwire: Tripwire | Literal[False] | None = ...,
    ) -> None: ...
    @overload
    def __init__(
        self,
        name: str,
        *,
        model: Model,
        result: type[R],
        tools: Sequence[Any] = ...,
        instructions: str = ...,
        budget: Budget | None = ...,
        max_frames: int = ...,
        frame_expiry: float = ...,
        max_held_tokens: int | None = ...,
        equal_writes: int | None = ...,
        plan: bool = ...,
        version: str | None = ...,
        migrate: Migrate | None = ...,
        on_error: Literal["pause", "fail"] = ...,
        concurrency: int | None = ...,
        description: str = ...,
        options: dict[str, Any] | None = ...,
        tripwire: Tripwire | Literal[False] | None = ...,
    ) -> None: ...
    def __init__(
        self,
        name: str,
        *,
        model: Model,
        tools: Sequence[Any] = (),
        instructions: str = "",
        result: Any = str,
        budget: Budget | None = None,
        max_frames: int = 4,
        frame_expiry: float = 1800.0,
        max_held_tokens: int | None = None,
        equal_writes: int | None = EQUAL_WRITES,
        plan: bool = True,
        version: str | None = None,
        migrate: Migrate | None = None,
        on_error: Literal["pause", "fail"] = "pause",
        concurrency: int | None = None,
        description: str = "",
        options: dict[str, Any] | None = None,
        tripwire: Tripwire | Literal[False] | None = None,
    ) -> None:
        if not callable(given := cast("Any", model)) or not hasattr(given, "dialect"):
            raise Misuse(f"LLMAgent {name!r} was given {model!r} as its model", hint="models.anthropic(...), say")
        arguments.text("instructions", instructions)
        if budget is not None and not isinstance(given := cast("Any", budget), Budget):
            raise Misuse(f"budget={given!r} is no budget", hint="give Budget(steps=...), say")
        self._tripwire = chosen(tripwire, name)
        if self._tripwire is not None:
            self._tripwire.prepared(instructions)  # here, not in the middle of a run
        self._model = model
        self._options = options or {}
        self._final = None if result is str else FinalAnswer(result)
        self._keeps_plan = plan
        own = [*([UPDATE_PLAN] if plan else []), *([self._final.tool] if self._final else [])]
        usables(tools)  # Misuse if this is no list
        self._usable = [*tools, *own]
        usables(self._usable)  # BadTool here, not in the middle of a run
        super().__init__(
            name,
            self._step,
            state=Chat,
            result=result,
            version=version,
            migrate=migrate,
            budget=budget or DEFAULT_BUDGET,
            on_error=on_error,
            concurrency=concurrency,
            tools=[one for one in opened(self._usable) if not isinstance(one, Agent)],
            functions=list,
            description=description or f"Hands a task to the agent {name} and gives its answer.",
            instructions=instructions,
            text_field="task",
            turn_for_unread=("redirect", "message"),
            max_frames=max_frames,
            frame_expiry=frame_expiry,
            max_held_tokens=max_held_tokens,
            equal_writes=equal_writes,
        )

    @property
    def schema_for_models(self) -> Json:
        text: Json = {"type": "string", "description": "what is to be done, in full"}
        return {"type": "object", "properties": {self.text_field: text}, "required": [self.text_field]}

    def with_model(self, model: Model) -> LLMAgent[R]:
        """The same agent, thinking with another model: a test's, say."""
        other = copy(self)
        other._model = model
        other.step = other._step
        return other

    # --- one turn -----------------------------------------------------------------------------------

    async def _step(self, run: Run[Chat]) -> Done[R] | None:
        chat, dialect = run.state, self._model.dialect
        if not chat.begun:
            await self._begin(run)
        redirects = run.take_redirects()
        message = next(iter(run.take_messages(limit=1)), None)
        urgent = message is not None and message.when == "now"
        used_tools = bool(chat.asked)
        if used_tools:
            withhold = _WITHHELD_REDIRECTED if redirects else _WITHHELD_URGENT if urgent else ""
            await self._use_tools(run, withhold, unless_approved=not redirects and _handed_back(message))
        elif redirects or urgent:
            self._keep_partial(run)
        if redirects:
            if message is not None and not run.frames:  # there was room for it until the task was begun again
                message = replace(message, always=True)
            await self._redirected(run, redirects)
        if message is not None:
            await take_up(run, message, dialect)
        tell_orders(run, dialect)
        if used_tools:
            return None
        if chat.ended and not run.frames:
            return Done(self.result_codec.load(to_json(chat.final)))
        return await self._think(run)

    async def _begin(self, run: Run[Chat]) -> None:
        chat = run.state
        chat.begun = True
        if not len(chat.log):  # a conversation may be brought along
            chat.log.append(user_message(self._model.dialect, chat.task))
        if chat.plan:
            run.plan.keep([(title, "queued") for title in chat.plan])
        await begin_task(run)

    async def _use_tools(self, run: Run[Chat], withhold: str, *, unless_approved: bool) -> None:
        """What the model asked for; what had not begun when a person came between is not performed.

        A take-over calls nothing off: what was approved is performed, and the note is answered after it.
        """
        chat = run.state
        asked = [ToolCall(one.id, one.name, one.arguments) for one in chat.asked]
        use = ToolUse(run, self._model.dialect, self._usable)
        chat.log.extend(await use.perform(asked, chat.said, withhold, unless_approved=unless_approved))
        keep_plan(run.plan, asked)
        chat.asked, chat.said = [], ""

    def _keep_partial(self, run: Run[Chat]) -> None:
        """What the model was saying when it was interrupted, so that it knows."""
        said = run.interruption.text if run.interruption is not None else ""
        if said.strip():
            run.state.log.append(assistant_message(self._model.dialect, f"{said}\n(I was interrupted here.)"))

    async def _redirected(self, run: Run[Chat], redirects: list[str]) -> None:
        """The model learns what is wanted now; the plan's next line is rewritten."""
        chat, text = run.state, "\n".join(redirects)
        chat.ended, chat.final = False, None
        await begin_task(run)
        words = f"The person watching you wants this instead: {text}"
        chat.log.append(user_message(self._model.dialect, words))
        item = run.plan.upcoming
        if item is not None:
            run.note(f"redirected: {item.title!r} -> {text!r}")
            run.plan.rewrite(item, text)
        else:
            run.note(f"redirected: {text!r}")
            run.plan.start(run.plan.add(text))

    async def _think(self, run: Run[Chat]) -> Done[R] | None:
        chat = run.state
        call = self._model(chat.log, tools=self._usable, system=self._system(), **self._options)
        if self._tripwire is not None:
            call.guard = self._tripwire.over(self.instructions, copy(chat.log))
        reply = await run.call(call)
        chat.log.append(reply.message)
        await keep_in_step(run, reply.usage.input_tokens + reply.usage.output_tokens)
        if reply.stop in _CUT_FOR_LENGTH and not reply.tool_calls:
            self._ask_for_the_rest(run, reply)
            return None
        reply, chat.so_far, chat.pieces = replace(reply, text=chat.so_far + reply.text), "", 0
        answer = self._answer_in(run, reply)
        if answer is not None:
            chat.reminders = 0
            for one in reply.tool_calls:  # mail may still come: providers want a result for every call in a log
                chat.log.append(tool_result(self._model.dialect, one, "accepted", failed=False))
            return await self._done(run, answer.value)
        if reply.tool_calls:
            chat.reminders = 0
            chat.asked = [AskedTool(id=one.id, name=one.name, arguments=one.arguments) for one in reply.tool_calls]
            chat.said = (reply.text.strip() or reply.reasoning.strip())[-WHY_CHARACTERS:]
        elif on_message(run) and reply.text.strip():
            chat.reminders = 0
            await answer_message(run, reply.text, self._model.dialect)
        else:
            self._remind(run, reply)
        return None

    def _answer_in(self, run: Run[Chat], reply: Reply) -> Answer | None:
        """The result of the task, if the reply gives it."""
        if on_message(run):
            return None
        if self._final is not None:
            return self._final.among(reply.tool_calls) if reply.tool_calls else self._final.from_text(reply.text)
        return Answer(reply.text) if reply.text.strip() and not reply.tool_calls else None

    def _system(self) -> str:
        """The same in every turn: providers keep what does not change."""
        parts = [self.instructions]
        if self._keeps_plan:
            parts.append(PLAN_WORDS)
        if self._final is not None:
            parts.append(self._final.words)
        return "\n\n".join(part for part in parts if part)

    def _ask_for_the_rest(self, run: Run[Chat], reply: Reply) -> None:
        """Half an answer is no answer: the model is asked to go on where the provider cut it."""
        chat = run.state
        chat.so_far += reply.text
        chat.pieces += 1
        if chat.pieces > MOST_PIECES:
            raise NoAnswer(
                f"the provider has cut the model's answer for its length {chat.pieces} times ({reply.stop})",
                hint="give the model more room (max_tokens=...), ask for less by a redirect, or resume to ask again",
            )
        words = "You were cut off for length. Go on exactly where you stopped, without repeating anything."
        chat.log.append(user_message(self._model.dialect, words))

    def _remind(self, run: Run[Chat], reply: Reply) -> None:
        """No answer that could be used: say so, a few times."""
        chat = run.state
        chat.reminders += 1
        what = "was empty" if not reply.text.strip() else "was not the result that is wanted"
        if chat.reminders > MOST_REMINDERS:
            raise NoAnswer(
                f"the model's answer {what}, {chat.reminders} times in a row",
                hint="redirect the run, change its model or instructions, or resume to ask again",
            )
        ask = self._final.words if self._final is not None else "Go on, or give your final answer."
        chat.log.append(user_message(self._model.dialect, f"Your last message {what}. {ask}"))

    async def _done(self, run: Run[Chat], value: Any) -> Done[R] | None:
        """The end of the task, and of the run unless a thought is still on hold: then that is taken up."""
        for item in run.plan:
            if item.status == "running":
                run.plan.done(item)
            elif item.status == "queued":
                run.plan.drop(item)
        await end_task(run)
        run.state.ended, run.state.final = True, from_json(self.result_codec.dump(value))
        if run.frames:
            go_back(run, self._model.dialect)
            return None
        return Done(value)


def _handed_back(message: Message | None) -> bool:
    """Is it the note of a person who had taken the run over?"""
    return message is not None and is_object(message.data) and message.data.get("handed_back") is True
