"""What a person can do to a run; each verb acts inside `control.carry_out`."""

from standfast.verbs.answering import answer, approve, deny, resolve, time_out_questions
from standfast.verbs.cancelling import cancel, cancel_one
from standfast.verbs.framing import abandon, return_to
from standfast.verbs.halting import Sign, Verify, halts_in, lift_halt, set_halt, wanted_halt
from standfast.verbs.mailing import drop, message, redirect, resend
from standfast.verbs.pausing import noted_resume, pause, pause_children, resume, resume_with_children, step_once
from standfast.verbs.taking_over import hand_back, perform, take_over
from standfast.verbs.travelling import begin_rewind, edit, rewind

__all__ = [
    "Sign",
    "Verify",
    "abandon",
    "answer",
    "approve",
    "begin_rewind",
    "cancel",
    "cancel_one",
    "deny",
    "drop",
    "edit",
    "halts_in",
    "hand_back",
    "lift_halt",
    "message",
    "noted_resume",
    "pause",
    "pause_children",
    "perform",
    "redirect",
    "resend",
    "resolve",
    "resume",
    "resume_with_children",
    "return_to",
    "rewind",
    "set_halt",
    "step_once",
    "take_over",
    "time_out_questions",
    "wanted_halt",
]
