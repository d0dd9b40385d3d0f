"""Redirects and messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

from standfast.events.base import ByPerson, Recorded
from standfast.records import MailKind


@dataclass(slots=True, kw_only=True)
class MailReceived(ByPerson):
    type: Literal["mail_received"] = "mail_received"
    mail: str
    kind: MailKind
    text: str
    when: str
    by: str | None
    disposition: str
    data: JsonValue = None


@dataclass(slots=True, kw_only=True)
class MailConsumed(Recorded):
    type: Literal["mail_consumed"] = "mail_consumed"
    mail: str
    step: int


@dataclass(slots=True, kw_only=True)
class MailNotRead(Recorded):
    """A step that was to read a redirect has ended without doing so; it is still there."""

    type: Literal["mail_not_read"] = "mail_not_read"
    mail: str
    step: int
    item: str = ""  # the title of the plan item that the step worked on


@dataclass(slots=True, kw_only=True)
class MailResent(ByPerson):
    """A redirect that was not read is sent again, to the next step."""

    type: Literal["mail_resent"] = "mail_resent"
    mail: str
    by: str | None
    disposition: str
    reason: str = ""


@dataclass(slots=True, kw_only=True)
class MailReturned(Recorded):
    type: Literal["mail_returned"] = "mail_returned"
    mail: str
    reason: str
