"""standfast: long-running agents that a person can pause, redirect or cancel at any moment."""

from typing import TYPE_CHECKING, Final

from standfast.lazily import attributes

if TYPE_CHECKING:
    from standfast.agents import Agent, agent
    from standfast.bodies.programs import run_process
    from standfast.builtin_calls import ask, child, sleep
    from standfast.chat import Chat
    from standfast.context import idempotency_key, progress, say, spend, stop_token, use
    from standfast.errors import (
        AnchorFailed,
        BadReturn,
        BadTool,
        CallDenied,
        CallFailed,
        CallTimedOut,
        CannotUndo,
        ChildCancelled,
        DuplicateAgent,
        Fenced,
        FramesOpen,
        Halted,
        KeyReused,
        KeyUnusable,
        Misuse,
        NoAnswer,
        NotCalled,
        NotPerformed,
        NotStorable,
        OutsideACall,
        RequestCut,
        RequestRefused,
        RunCancelled,
        RunEnded,
        RunFailed,
        RunHeld,
        RunIdTaken,
        StackFull,
        StandfastError,
        StoreBusy,
        StoreDamaged,
        StoreError,
        StoreFailed,
        StoreTooNew,
        ToolServerFailed,
        UnknownAgent,
        UnknownHalt,
        UnknownRun,
        WrongState,
    )
    from standfast.events import Event, TextDelta
    from standfast.evidence.notary import Notary
    from standfast.frames import OpenFrame
    from standfast.freshness import file_content
    from standfast.handle import Handle
    from standfast.llm_agent import LLMAgent
    from standfast.log import Log
    from standfast.pipeline import Pipeline
    from standfast.plan import Plan
    from standfast.records import (
        Accepted,
        Again,
        Answer,
        Budget,
        CallRef,
        CheckAgain,
        Choice,
        Completed,
        Consequences,
        Done,
        Halt,
        Happened,
        Idle,
        InFlight,
        Interruption,
        Json,
        MailView,
        Mark,
        Message,
        Moment,
        Need,
        NotHappened,
        Performed,
        PlanItem,
        Receipt,
        Refused,
        Residue,
        RunView,
        Spent,
        TooLate,
        Undone,
    )
    from standfast.redaction import Redactor, Secret
    from standfast.rows import Frame
    from standfast.run import Run
    from standfast.runtime import Runtime
    from standfast.schema_tools import SchemaTool
    from standfast.stop_records import StopRecord
    from standfast.toolbox import Toolbox
    from standfast.tools import Call, Tool, tool
    from standfast.transcripts import Said, Trip
    from standfast.tripwire import Tripwire

__all__ = [
    "Accepted",
    "Again",
    "Agent",
    "AnchorFailed",
    "Answer",
    "BadReturn",
    "BadTool",
    "Budget",
    "Call",
    "CallDenied",
    "CallFailed",
    "CallRef",
    "CallTimedOut",
    "CannotUndo",
    "Chat",
    "CheckAgain",
    "ChildCancelled",
    "Choice",
    "Completed",
    "Consequences",
    "Done",
    "DuplicateAgent",
    "Event",
    "Fenced",
    "Frame",
    "FramesOpen",
    "Halt",
    "Halted",
    "Handle",
    "Happened",
    "Idle",
    "InFlight",
    "Interruption",
    "Json",
    "KeyReused",
    "KeyUnusable",
    "LLMAgent",
    "Log",
    "MailView",
    "Mark",
    "Message",
    "Misuse",
    "Moment",
    "Need",
    "NoAnswer",
    "NotCalled",
    "NotHappened",
    "NotPerformed",
    "NotStorable",
    "Notary",
    "OpenFrame",
    "OutsideACall",
    "Performed",
    "Pipeline",
    "Plan",
    "PlanItem",
    "Receipt",
    "Redactor",
    "Refused",
    "RequestCut",
    "RequestRefused",
    "Residue",
    "Run",
    "RunCancelled",
    "RunEnded",
    "RunFailed",
    "RunHeld",
    "RunIdTaken",
    "RunView",
    "Runtime",
    "Said",
    "SchemaTool",
    "Secret",
    "Spent",
    "StackFull",
    "StandfastError",
    "StopRecord",
    "StoreBusy",
    "StoreDamaged",
    "StoreError",
    "StoreFailed",
    "StoreTooNew",
    "TextDelta",
    "TooLate",
    "Tool",
    "ToolServerFailed",
    "Toolbox",
    "Trip",
    "Tripwire",
    "Undone",
    "UnknownAgent",
    "UnknownHalt",
    "UnknownRun",
    "WrongState",
    "agent",
    "ask",
    "child",
    "file_content",
    "idempotency_key",
    "progress",
    "run_process",
    "say",
    "sleep",
    "spend",
    "stop_token",
    "tool",
    "use",
]

# What a checker reads above, by the module that has it. A module is loaded when one of its names is first used: the
# command line and the processes of tools need few of them, and loading them all takes longer than what they do.
_NAMES: Final = {
    "agents": "Agent agent",
    "bodies.programs": "run_process",
    "builtin_calls": "ask child sleep",
    "chat": "Chat",
    "context": "idempotency_key progress say spend stop_token use",
    "errors": """
        AnchorFailed BadReturn BadTool CallDenied CallFailed CallTimedOut CannotUndo ChildCancelled DuplicateAgent
        Fenced FramesOpen Halted KeyReused KeyUnusable Misuse NoAnswer NotCalled NotPerformed NotStorable
        OutsideACall RequestCut RequestRefused RunCancelled RunEnded RunFailed RunHeld RunIdTaken StackFull
        StandfastError StoreBusy StoreDamaged StoreError StoreFailed StoreTooNew ToolServerFailed UnknownAgent
        UnknownHalt UnknownRun WrongState
    """,
    "events": "Event TextDelta",
    "evidence.notary": "Notary",
    "frames": "OpenFrame",
    "freshness": "file_content",
    "handle": "Handle",
    "llm_agent": "LLMAgent",
    "log": "Log",
    "pipeline": "Pipeline",
    "plan": "Plan",
    "records": """
        Accepted Again Answer Budget CallRef CheckAgain Choice Completed Consequences Done Halt Happened Idle
        InFlight Interruption Json MailView Mark Message Moment Need NotHappened Performed PlanItem Receipt
        Refused Residue RunView Spent TooLate Undone
    """,
    "redaction": "Redactor Secret",
    "rows": "Frame",
    "run": "Run",
    "runtime": "Runtime",
    "schema_tools": "SchemaTool",
    "stop_records": "StopRecord",
    "tools": "Call Tool tool",
    "toolbox": "Toolbox",
    "transcripts": "Said Trip",
    "tripwire": "Tripwire",
}

if not TYPE_CHECKING:  # a checker would take every name for one of ours
    __getattr__, __dir__ = attributes(globals(), _NAMES)
