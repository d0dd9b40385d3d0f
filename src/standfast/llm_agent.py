"""LLMAgent: a ready loop of model and tools, with plan, redirect and messages. An ordinary step function.

One step asks the model, the next performs what it asked for: each ends in a boundary of its own, so that a redirect
in the middle of the tools finds the model's words kept, and every tool it asked for with a truthful result.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, Generic, Literal, TypeVar, cast, overload

from standfast.abc import Model
from standfast.agent import Agent, Migrate
from standfast.chat import AskedTool, Chat
from standfast.dialects import assistant_message, user_message
from standfast.errors import Misuse, NoAnswer
from standfast.final_answer import FinalAnswer
from standfast.keeping_plan import PLAN_WORDS, UPDATE_PLAN, keep_plan
from standfast.records import Budget, Done
from standfast.replies import Reply, ToolCall
from standfast.run import Run
from standfast.tool_use import ToolUse
from standfast.usable import usables

R = TypeVar("R")

DEFAULT_BUDGET = Budget(steps=1000, repeats=10)
MOST_REMINDERS = 3


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
        plan: bool = ...,
        version: str | None = ...,
        migrate: Migrate | None = ...,
        on_error: Literal["pause", "fail"] = ...,
        concurrency: int | None = ...,
        description: str = ...,
        options: dict[str, Any] | None = ...,
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
        plan: bool = ...,
        version: str | None = ...,
        migrate: Migrate | None = ...,
        on_error: Literal["pause", "fail"] = ...,
        concurrency: int | None = ...,
        description: str = ...,
        options: dict[str, Any] | None = ...,
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
        plan: bool = True,
        version: str | None = None,
        migrate: Migrate | None = None,
        on_error: Literal["pause", "fail"] = "pause",
        concurrency: int | None = None,
        description: str = "",
        options: dict[str, Any] | None = None,
    ) -> None:
        if not callable(given := cast("Any", model)) or not hasattr(given, "dialect"):
            raise Misuse(f"LLMAgent {name!r} was given {model!r} as its model", hint="models.anthropic(...), say")
        self._model = model
        self._options = options or {}
        self._final = None if result is str else FinalAnswer(result)
        self._keeps_plan = plan
        own = [*([UPDATE_PLAN] if plan else []), *([self._final.tool] if self._final else [])]
        self._usable = [*tools, *own]
        offered = usables(self._usable)  # BadTool here, not in the middle of a run
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
            tools=[one for one in self._usable if not isinstance(one, Agent)],
            functions=list,
            description=description or f"Hands a task to the agent {name} and gives its answer.",
            instructions=instructions,
            text_field="task",
        )
        self._tool_names = [one.name for one in offered]

    def with_model(self, model: Model) -> LLMAgent[R]:
        """The same agent, thinking with another model: a test's, say."""
        other = copy(self)
        other._model = model
        other.step = other._step
        return other

    # --- one turn -----------------------------------------------------------------------------------

    async def _step(self, run: Run[Chat]) -> Done[R] | None:
        chat = run.state
        if not len(chat.log):
            self._begin(run)
        redirects = run.take_redirects()
        if chat.asked:
            await self._use_tools(run, redirects)
            return None
        if redirects:
            self._redirected(run, redirects)
        return await self._think(run)

    def _begin(self, run: Run[Chat]) -> None:
        chat = run.state
        if not chat.task.strip():
            raise Misuse(f"{self.name} has no task", hint='start(agent, "what is to be done")')
        chat.log.append(user_message(self._model.dialect, chat.task))
        if chat.plan:
            run.plan.keep([(title, "queued") for title in chat.plan])

    async def _use_tools(self, run: Run[Chat], redirects: list[str]) -> None:
        """What the model asked for; what had not begun when a person redirected the run is not performed."""
        chat = run.state
        asked = [ToolCall(one.id, one.name, one.arguments) for one in chat.asked]
        withhold = "a person has redirected the run" if redirects else ""
        use = ToolUse(run, self._model.dialect, self._usable)
        chat.log.extend(await use.perform(asked, why=chat.said, withhold=withhold))
        keep_plan(run.plan, asked)
        chat.asked, chat.said = [], ""
        if redirects:
            self._redirected(run, redirects)

    def _redirected(self, run: Run[Chat], redirects: list[str]) -> None:
        """The model learns what it had said and what is wanted now; the plan's next line is rewritten."""
        chat, dialect = run.state, self._model.dialect
        partial = run.interruption.text if run.interruption is not None and not chat.asked else ""
        text = "\n".join(redirects)
        if partial.strip():
            chat.log.append(assistant_message(dialect, partial))
            words = f"(You were interrupted there.) The person watching you wants this instead: {text}"
        else:
            words = f"The person watching you wants this instead: {text}"
        chat.log.append(user_message(dialect, words))
        item = run.plan.upcoming
        if item is not None:
            run.note(f"redirected: {item.title!r} -> {text!r}")
            run.plan.rewrite(item, text)
        else:
            run.note(f"redirected: {text!r}")
            run.plan.start(run.plan.add(text))

    async def _think(self, run: Run[Chat]) -> Done[R] | None:
        chat = run.state
        reply = await run.call(self._model(chat.log, tools=self._usable, system=self._system(), **self._options))
        chat.log.append(reply.message)
        if reply.tool_calls:
            chat.reminders = 0
            return self._asked(run, reply)
        if self._final is None and reply.text.strip():
            return self._done(run, reply.text)
        if self._final is not None:
            answer = self._final.from_text(reply.text)
            if answer is not None:
                return self._done(run, answer.value)
        self._remind(run, reply)
        return None

    def _system(self) -> str:
        """The same in every turn: providers keep what does not change."""
        parts = [self.instructions]
        if self._keeps_plan:
            parts.append(PLAN_WORDS)
        if self._final is not None:
            parts.append(self._final.words)
        return "\n\n".join(part for part in parts if part)

    def _asked(self, run: Run[Chat], reply: Reply) -> Done[R] | None:
        chat = run.state
        final = self._final
        if final is not None:
            ended = final.among(reply.tool_calls)
            if ended is not None:
                return self._done(run, ended.value)
        chat.asked = [AskedTool(id=one.id, name=one.name, arguments=one.arguments) for one in reply.tool_calls]
        chat.said = reply.text.strip() or reply.reasoning.strip()[-500:]
        return None

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

    def _done(self, run: Run[Chat], value: Any) -> Done[R]:
        for item in run.plan:
            if item.status == "running":
                run.plan.done(item)
            elif item.status == "queued":
                run.plan.drop(item)
        return Done(value)
