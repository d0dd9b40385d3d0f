"""The thoughts of an LLMAgent: its task and every message are frames, and the model is told where it is (R19-R23)."""

from __future__ import annotations

from pydantic_core import to_json

from standfast.chat import Chat
from standfast.dialects import user_message
from standfast.names import name_words
from standfast.records import Message
from standfast.replies import Dialect
from standfast.run import Run

GOAL_CHARACTERS = 80


async def begin_task(run: Run[Chat]) -> None:
    """The task is the frame below all others."""
    if not run.frames:
        async with run.frame(_goal(run.state.task)) as task:
            task.stay_open()
        run.state.frame = run.frames[-1].id


async def keep_in_step(run: Run[Chat], tokens: int) -> None:
    """The active frame costs what the model has just read; the task's steps are the lines of the plan."""
    if not run.frames:
        return
    async with run.frame(run.frames[-1].goal, _titles(run)) as frame:
        frame.stay_open()
        frame.tokens = tokens
        while frame.done < sum(item.status == "done" for item in run.plan) and frame.next is not None:
            frame.advance()


def _titles(run: Run[Chat]) -> list[str]:
    """The plan is the task's: an answer to a message has no steps of its own."""
    return [] if run.frames[-1].mail else [item.title for item in run.plan if item.status != "dropped"]


async def take_up(run: Run[Chat], message: Message, dialect: Dialect) -> None:
    """What the model was at is put on hold, and the message is what it hears next."""
    async with run.frame(_goal(message.text), message=message) as frame:
        frame.stay_open()
    run.state.frame = run.frames[-1].id
    data = "" if message.data is None else f"\n{to_json(message.data).decode()}"
    held = [f.goal for f in run.frames if f.status == "held"]
    words = f"\n(Answer this first. On hold meanwhile: {'; '.join(held)}.)" if held else ""
    sender = name_words(message.by, message.by_token, "a person")
    run.state.log.append(user_message(dialect, f"Message from {sender}: {message.text}{data}{words}"))


async def answer(run: Run[Chat], text: str, dialect: Dialect) -> None:
    """The message on top is answered: said to people, with what is on hold; then back to what was below, aloud."""
    top = run.frames[-1]
    assert top.mail is not None
    async with run.frame(top.goal) as frame:
        frame.finish()
    run.reply(Message(top.mail, top.goal), text)
    go_back(run, dialect)


def go_back(run: Run[Chat], dialect: Dialect) -> None:
    """The model is told what it has returned to, if anything."""
    run.state.frame = run.frames[-1].id if run.frames else ""
    if run.returned:
        run.state.log.append(user_message(dialect, f"({run.returned}. Go on.)"))


def tell_orders(run: Run[Chat], dialect: Dialect) -> None:
    """What people did to the stack since the model was last asked."""
    lines = [f"{frame.goal!r} was given up: {reason}." for frame, reason in run.abandoned]
    if lines or _moved(run):
        now = f"Now: {run.returned or run.frames[-1].goal}." if run.frames else "Nothing else is open: say so, and end."
        run.state.log.append(user_message(dialect, f"({' '.join([*lines, now])})"))
    run.state.frame = run.frames[-1].id if run.frames else ""


def _moved(run: Run[Chat]) -> bool:
    """Is another frame on top than the one that the model was last told of?"""
    return bool(run.state.frame and run.frames and run.frames[-1].id != run.state.frame)


def on_message(run: Run[Chat]) -> bool:
    """Is it a message that is being answered?"""
    return bool(run.frames) and run.frames[-1].mail is not None


async def end_task(run: Run[Chat]) -> None:
    """The task is over; Done is refused while a frame is open."""
    if run.frames:
        async with run.frame(run.frames[-1].goal) as task:
            task.finish()


def _goal(text: str) -> str:
    line = " ".join(text.split())
    if not line:
        return "a message without words"  # it may carry data, and is answered like any other
    return line if len(line) <= GOAL_CHARACTERS else line[: GOAL_CHARACTERS - 3] + "..."
