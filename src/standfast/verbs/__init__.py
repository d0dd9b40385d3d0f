"""What a person can do to a run; each verb acts inside `control.carry_out`."""

from standfast.verbs.answering import answer, approve, deny, resolve, time_out_questions
from standfast.verbs.cancelling import cancel, cancel_one
from standfast.verbs.framing import abandon, return_to
from standfast.verbs.mailing import message, redirect
from standfast.verbs.pausing import pause, pause_children, resume, resume_with_children, step_once
from standfast.verbs.taking_over import hand_back, perform, take_over
from standfast.verbs.travelling import begin_rewind, edit, rewind

__all__ = [
    "abandon",
    "answer",
    "approve",
    "begin_rewind",
    "cancel",
    "cancel_one",
    "deny",
    "edit",
    "hand_back",
    "message",
    "pause",
    "pause_children",
    "perform",
    "redirect",
    "resolve",
    "resume",
    "resume_with_children",
    "return_to",
    "rewind",
    "step_once",
    "take_over",
    "time_out_questions",
]
