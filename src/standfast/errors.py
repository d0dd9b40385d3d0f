"""Every error standfast raises.

StandfastError
├── Misuse                    a program asked for something that makes no sense
│   ├── UnknownRun            no run of that id in this store
│   ├── UnknownAgent          no agent of that name is known here
│   ├── UnknownHalt           no halt of that id in this store
│   ├── DuplicateAgent        two agents of one name
│   ├── WrongState            the state is not of the agent's type, or an edit does not validate
│   ├── RunIdTaken            a run id used again for something else
│   ├── BadTool               a tool declared so that it cannot keep its promises
│   ├── NotCalled             a tool called without run.call
│   ├── KeyReused             one explicit key, two different calls
│   ├── OutsideACall          idempotency_key(), say() ... used outside a tool's body
│   ├── BadReturn             a step returned something else than Done, Idle or None
│   ├── StackFull             a step opened more frames than its agent allows
│   └── FramesOpen            a step returned Done while thoughts are unfinished
├── Halted                    an operator's halt holds; no run was started
├── NotStorable               a value cannot be written as JSON and read back
├── StoreError                the store itself
│   ├── StoreBusy             another process holds the store's lock
│   ├── StoreFailed           disk full, read-only, I/O error
│   ├── StoreDamaged          the file is not what was written
│   └── StoreTooNew           written by a newer standfast
├── KeyUnusable               the key that signs is missing, broken, or in other hands too
├── AnchorFailed              an anchor outside the store did not take a checkpoint's hash
├── NoAnswer                  a model gave no answer that could be used
├── ProviderError             a model's provider did not answer (in standfast.models)
├── ToolServerFailed          a server of tools cannot be started, or does not speak its protocol
├── Fenced                    another driver has taken this run over
├── RequestRefused            the transport fence did not let a request through
│   └── RequestCut            it let the request through, and closed it when its call or run was stopped
├── CallFailed                a call ended without a result
│   ├── CallTimedOut
│   ├── CallDenied
│   └── ChildCancelled
└── RunEnded                  raised by Handle.result()
    ├── RunCancelled
    ├── RunFailed
    └── RunHeld

NotPerformed and CannotUndo are raised by *your* code: they tell standfast a fact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from standfast.records import Receipt, RunView


class StandfastError(Exception):
    """Something went wrong; `hint` says what to do about it."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class Misuse(StandfastError):
    """The program asked for something that makes no sense; no run was changed."""


class UnknownRun(Misuse):
    """No run of that id is in this store."""


class UnknownAgent(Misuse):
    """No agent of that name is known to this runtime."""


class UnknownHalt(Misuse):
    """No halt of that id is in this store."""


class DuplicateAgent(Misuse):
    """Two agents of one name were given to one runtime."""


class WrongState(Misuse):
    """The state does not fit the agent's state type."""


class RunIdTaken(Misuse):
    """The run id is in use for another agent or another state."""


class BadTool(Misuse):
    """The tool is declared so that it cannot keep its promises."""


class NotCalled(Misuse):
    """A tool was called, but nobody performed the call."""


class KeyReused(Misuse):
    """The same explicit key was used for two different calls of one step."""


class OutsideACall(Misuse):
    """A helper for tool bodies was used outside one."""


class BadReturn(Misuse):
    """A step returned something that is not Done, Idle or None."""


class StackFull(Misuse):
    """There is no room for another thought: too many are open, or those on hold cost too much."""


class FramesOpen(Misuse):
    """A step returned Done while thoughts are unfinished; the step was not taken as done."""


class Halted(StandfastError):
    """An operator's halt holds; no run was started. `halts` are the ids of those in the way."""

    def __init__(self, message: str, *, halts: tuple[str, ...] = (), hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.halts = halts


class NotStorable(StandfastError):
    """A value cannot be stored as JSON and read back; `path` names the field."""

    def __init__(self, message: str, *, path: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.path = path


class StoreError(StandfastError):
    """The store could not do what it was asked."""


class StoreBusy(StoreError):
    """Another process holds the store's write lock; nothing was changed."""

    def __init__(self, message: str, *, pid: int | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.pid = pid


class StoreFailed(StoreError):
    """The disk said no: full, read-only or broken. Nothing was acknowledged."""


class StoreDamaged(StoreError):
    """The file's contents contradict themselves; it was not changed."""


class StoreTooNew(StoreError):
    """The file was written by a newer standfast; it was not changed."""


class KeyUnusable(StandfastError):
    """The key that signs cannot be used; runs go on, unsigned."""


class AnchorFailed(StandfastError):
    """An anchor did not take a checkpoint's hash; it is tried again, and runs go on."""


class NoAnswer(StandfastError):
    """A model gave no answer that could be used, however often it was asked."""


class ToolServerFailed(StandfastError):
    """A server of tools cannot be started, has ended, or does not speak its protocol."""


class Fenced(StandfastError):
    """Another driver holds this run now; this one's writes no longer count."""


class RequestRefused(StandfastError):
    """The transport fence did not let a request through: nothing was sent."""


class RequestCut(RequestRefused):
    """The transport fence closed a request under way, because its call or its run was stopped."""


class CallFailed(StandfastError):
    """A call ended without a result: the same error on the first try and on replay."""

    def __init__(self, message: str, *, type: str = "", call: str = "", hint: str = "") -> None:  # noqa: A002 - API name
        super().__init__(message, hint=hint)
        self.type = type
        self.call = call


class CallTimedOut(CallFailed):
    """The call was cut because its time was up."""


class CallDenied(CallFailed):
    """A person said no; the call was not executed."""


class ChildCancelled(CallFailed):
    """The child run was cancelled on its own."""


class NotPerformed(Exception):
    """Raise inside a tool to say: nothing happened, the effect was not performed."""


class CannotUndo(Exception):
    """Raise inside an undo to say: this effect cannot be taken back."""


class RunEnded(StandfastError):
    """The run has no result to give."""


class RunCancelled(RunEnded):
    """The run was cancelled; `receipt` says what that did."""

    def __init__(self, message: str, *, receipt: Receipt, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.receipt = receipt


class RunFailed(RunEnded):
    """The agent asked for failure on error, and an error came; `traceback` is kept."""

    def __init__(self, message: str, *, traceback: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.traceback = traceback


class RunHeld(RunEnded):
    """The run is paused and will not go on by itself; `view` says why."""

    def __init__(self, message: str, *, view: RunView, traceback: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.view = view
        self.traceback = traceback
