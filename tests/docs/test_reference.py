"""The public names are pinned: adding one is a decision, losing one breaks programs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import standfast

ROOT = Path(__file__).resolve().parents[2]

NAMES = """
    Accepted Again Agent AnchorFailed Answer BadReturn BadTool Budget Call CallDenied CallFailed CallRef
    CallTimedOut CannotUndo Chat CheckAgain ChildCancelled Choice Completed Consequences Done DuplicateAgent Event
    Fenced Frame FramesOpen Halt Halted Handle Happened Idle InFlight Interruption Json KeyReused KeyUnusable
    LLMAgent Log MailView Mark Message Misuse Moment Need NoAnswer NotCalled NotHappened NotPerformed NotStorable Notary
    OpenFrame OutsideACall Performed Pipeline Plan PlanItem Receipt Redactor Refused RequestCut RequestRefused
    Residue Run RunCancelled RunEnded RunFailed RunHeld RunIdTaken RunView Runtime Said SchemaTool Secret Spent
    StackFull StandfastError StopRecord StoreBusy StoreDamaged StoreError StoreFailed StoreTooNew TextDelta TooLate Tool
    ToolServerFailed Toolbox Trip Tripwire Undone UnknownAgent UnknownHalt UnknownRun WrongState agent ask child
    file_content idempotency_key progress run_process say sleep spend stop_token tool use
"""


def test_the_public_names_are_these() -> None:
    assert standfast.__all__ == sorted(NAMES.split())


def test_every_public_name_is_there() -> None:
    assert all(hasattr(standfast, name) for name in standfast.__all__)


def test_the_reference_is_up_to_date() -> None:
    """Every name and method has a docstring, and docs/reference.md says what it says."""
    command = [sys.executable, "docs/generate_reference.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
