"""Performing a call: its body in the right place, with retries and a time limit."""

from __future__ import annotations

import asyncio
import contextvars
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from standfast.arguments import LONGEST_MESSAGE, middle_left_out
from standfast.bodies import Cut, RemoteError
from standfast.bodies.processes import ProcessBody, process_target
from standfast.bodies.threads import ThreadBody
from standfast.contained import contain, contained, text_of
from standfast.context import Stopped, current_call
from standfast.errors import NotPerformed, NotStorable, StandfastError
from standfast.flight import Flight, Outcome
from standfast.in_context import in_context
from standfast.ladder import INSISTING, cut_task
from standfast.odd_text import mended
from standfast.outliving import leave_timed_out
from standfast.scope import current_attempt
from standfast.tools import unperformed

if TYPE_CHECKING:
    from standfast.session import Session

FIRST_RETRY = 0.1
CANCELLED_ITSELF = Outcome("failed", error="CancelledError", message="it cancelled itself")


async def perform(session: Session, flight: Flight) -> Outcome:
    """Run the body to its end, however it ends. Never raises but for cancellation of an inline body."""
    tool = flight.call.tool
    tries = 0
    while True:
        outcome = await _try(session, flight)
        if outcome.kind not in ("failed", "timed_out") or tries >= tool.retries:
            return outcome
        try:
            again = await _may_try_again(session, flight, FIRST_RETRY * 2**tries)
        except Exception as error:  # noqa: BLE001 - the store cannot be asked
            return failure(error)
        if not again:
            if flight.cutting and outcome.kind == "failed":
                await flight.threads_end()  # that its last try had left going on
            return Outcome("cut")  # it may be repeated, and has its tries again when the run goes on
        tries += 1
        flight.try_anew()


async def _may_try_again(session: Session, flight: Flight, after: float) -> bool:
    """After a while; not if a stop has come before that."""
    if not session.may_go_on(flight):
        return False
    flight.resting = session.own(session.env.clock.back_off(after))
    try:
        await asyncio.wait({flight.resting})
    finally:
        flight.resting.cancel()
        flight.resting = None
    return session.may_go_on(flight)


async def _try(session: Session, flight: Flight) -> Outcome:
    try:
        return await _in_its_place(session, flight)
    except Exception as error:  # noqa: BLE001 - whatever it is, somebody waits for the outcome
        return failure(error)


async def _in_its_place(session: Session, flight: Flight) -> Outcome:
    tool = flight.call.tool
    if tool.process:
        return await _in_process(session, flight)
    if tool.is_async:
        return await (_inline(flight) if flight.done is None else _in_task(session, flight))
    return await _in_thread(session, flight)


async def _inline(flight: Flight) -> Outcome:
    """In the caller's own task: for calls that may be cut together with their caller."""
    try:
        value = await in_context(body_context(flight), lambda: flight.call.tool.fn(**flight.call.args))
    except asyncio.CancelledError:
        if is_cancelled(flight):
            raise
        return CANCELLED_ITSELF
    except BaseException as error:  # noqa: BLE001 - the step gets it as CallFailed
        return failure(contained(error, flight.task))
    return success(flight, value)


def is_cancelled(flight: Flight) -> bool:
    """Was an inline body cancelled from outside, or did it await something that was cancelled?"""
    return flight.cutting or flight.task is None or flight.task.cancelling() > 0


async def _in_task(session: Session, flight: Flight) -> Outcome:
    """In a task of the driver: for calls that must end even if their caller does not wait."""

    async def body() -> Any:
        return await contain(lambda: flight.call.tool.fn(**flight.call.args))

    task = session.env.loop.create_task(body(), name=f"standfast {flight.id}", context=body_context(flight))
    attempt = session.attempt
    if attempt is not None:
        attempt.disown(task)  # cut by the call's own rules, not with the step
    flight.task = task
    if flight.cutting:
        cut_task(task, flight.call.tool.grace)

    def ending() -> Outcome:
        if task.cancelled():
            if flight.token.stopped:
                return Outcome("cut")
            return CANCELLED_ITSELF
        error = task.exception()
        return failure(error) if error is not None else success(flight, task.result())

    return await _end_of(session, flight, task, ending)


async def _in_thread(session: Session, flight: Flight) -> Outcome:
    body = ThreadBody(
        lambda: flight.call.tool.fn(**flight.call.args),
        name=f"standfast {flight.id}",
        context=body_context(flight),
        token=flight.token,
        grace=flight.call.tool.grace,
    )
    flight.body = body
    if flight.cutting:
        return Outcome("cut")
    try:
        body.start()
    except RuntimeError as error:  # no more threads
        return not_begun(error)
    return await _elsewhere(session, flight, body.future, lambda value: success(flight, value))


async def _in_process(session: Session, flight: Flight) -> Outcome:
    tool = flight.call.tool
    try:
        module, path, qualname = process_target(tool.fn)
    except StandfastError as error:
        return not_begun(error)
    if flight.cutting:
        return Outcome("cut")
    body = ProcessBody(
        module=module,
        path=path,
        qualname=qualname,
        args_json=flight.call.raw,
        key=flight.id,
        mark=flight.begin_program(),
        on_say=flight.say,
        on_spend=flight.spend,
        on_progress=flight.progress,
    )
    flight.body = body
    try:
        await body.start()
    except OSError as error:  # no more files or processes, or no interpreter
        return not_begun(error)
    return await _elsewhere(session, flight, body.future, lambda raw: Outcome("finished", raw))


async def _elsewhere(
    session: Session, flight: Flight, future: asyncio.Future[Any], success: Callable[[Any], Outcome]
) -> Outcome:
    def ending() -> Outcome:
        error = future.exception()
        if error is None:
            return success(future.result())
        return Outcome("cut") if isinstance(error, Cut | Stopped) else failure(error)

    return await _end_of(session, flight, future, ending)


async def _end_of(
    session: Session, flight: Flight, body: asyncio.Future[Any], ending: Callable[[], Outcome]
) -> Outcome:
    """Wait for a body; when its time is up it is cut, and left behind if it goes on."""
    timeout = flight.call.tool.timeout
    if timeout is None:
        await _wholly(flight, body)
        return ending()
    alarm = asyncio.ensure_future(session.env.clock.sleep(timeout))
    try:
        await asyncio.wait({body, alarm}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        alarm.cancel()
    if body.done() or flight.cutting:
        await _wholly(flight, body)
        return ending()
    flight.time_is_up()
    whole = session.own(_wholly(flight, body))
    await asyncio.wait({whole}, timeout=flight.call.tool.grace + INSISTING)
    flight.timed_out = False
    if not whole.done():
        leave_timed_out(session, flight, whole, ending)
    elif not body.cancelled():
        body.exception()  # it has been told; nothing is left to raise
    return Outcome("timed_out", error="CallTimedOut", message=f"no end after {timeout} s")


async def _wholly(flight: Flight, body: asyncio.Future[Any]) -> None:
    """Until a body has ended, and if it was cut its threads too."""
    await asyncio.wait({body})
    if flight.token.stopped:
        await flight.threads_end()


def body_context(flight: Flight) -> contextvars.Context:
    """The context a body runs in: the step's own, with this call in it."""
    context = contextvars.copy_context()
    context.run(current_call.set, flight)
    context.run(current_attempt.set, flight.session.attempt)  # what it starts is stopped with the step
    context.run(unperformed.set, None)
    return context


def success(flight: Flight, value: Any) -> Outcome:
    try:
        return Outcome("finished", flight.call.tool.dump_result(value))
    except NotStorable as error:
        return Outcome("failed", error="NotStorable", message=_kept(str(error)))


def not_begun(error: Exception) -> Outcome:
    """A body that could not be started has done nothing."""
    return Outcome("not_performed", error=type(error).__name__, message=_kept(text_of(error)))


def failure(error: BaseException) -> Outcome:
    if isinstance(error, NotPerformed):
        return Outcome("not_performed", error="NotPerformed", message=_kept(text_of(error)))
    if isinstance(error, RemoteError):
        message = _kept(error.message)
        return Outcome("not_performed" if error.not_performed else "failed", error=error.type, message=message)
    text = text_of(error) or traceback.format_exception_only(error)[-1].strip()
    return Outcome("failed", error=type(error).__name__, message=_kept(text))


def _kept(message: str) -> str:
    return middle_left_out(mended(message), LONGEST_MESSAGE)
