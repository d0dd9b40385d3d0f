"""Dialogs: a need with its choices, a redirect, a thought, a longer text. Escape leaves everything as it is."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from pydantic import JsonValue
from pydantic_core import from_json
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Label, Select, Static, TextArea

from standfast.cli.access import asked_with, verb_of
from standfast.cli.words import choice_words, next_item, short
from standfast.records import Choice, Hand, Happened, Json, Need, RunView
from standfast.redirectable import following, taken_redirects

Asked = tuple[str, Json]
"""A verb and its arguments: what a dialog comes to."""


class Dialog(ModalScreen[Asked | None]):
    """A box over the run; what it comes to is carried out by the screen below."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "close", "Close")]

    def action_close(self) -> None:
        self.end_with(None)

    def end_with(self, asked: Asked | None, hand: Hand = "button") -> None:
        """Close; nothing waits for the box to be gone."""
        _ = self.dismiss(None if asked is None else (asked[0], asked_with(hand, *asked)))


class NeedDialog(Dialog):
    """Something only a person can settle, made from its kind and its choices; also of kinds it does not know."""

    def __init__(self, view: RunView, need: Need) -> None:
        super().__init__()
        self._run = view
        self.need = need
        self._choices: list[Any] = [c for c in need.choices if not (isinstance(c, Choice) and "args" in c.args)]

    def compose(self) -> ComposeResult:
        need = self.need
        with VerticalScroll(classes="box"):
            yield Label(f"needs you: {need.kind}", classes="title")
            yield Static(Text(need.text))
            if need.about:
                yield Static(Text(short(need.about, 160)))  # its arguments follow in full
            if need.kind == "approval":
                yield Label("arguments (change them if you like)")
                yield TextArea(json.dumps(self._args(), indent=2, ensure_ascii=False), id="arguments", compact=True)
            if need.kind == "question" or not need.choices:
                yield Input(placeholder="your answer: text, or JSON if it takes that", id="answer", compact=True)
            if need.kind in ("approval", "error", "doubt"):
                yield Input(placeholder="reason (optional)", id="reason", compact=True)
            if self._caps() is not None:
                yield Label("new caps (change them if you like)")
                yield Input(json.dumps(self._caps()), id="caps", compact=True)
            if any(isinstance(choice, Happened) for choice in need.choices):
                yield Input(placeholder="result, as JSON (if it happened)", id="result", compact=True)
            with Vertical(classes="choices"):
                for n, choice in enumerate(self._choices):
                    label = Content(choice_words(need, choice, self._run.id)[0])  # no markup: it is the agent's
                    yield Button(label, id=f"choice-{n}", compact=True, variant="primary" if n == 0 else "default")
                if need.kind == "approval":
                    yield Button("let it pass with the changed arguments", id="changed", compact=True)
                yield Button("later (Esc)", id="later", compact=True)
            yield Static("", id="problem", classes="problem")

    def on_mount(self) -> None:
        """It may come up under somebody's fingers: Enter typed for the run below approves and settles nothing."""
        asks = self.need.kind == "question"
        first = "#later" if not asks else "#choice-0" if self._choices else "#answer"
        self.query_one(first).focus()

    def _args(self) -> Any:
        offered: list[Any] = [c.args["args"] for c in self.need.choices if isinstance(c, Choice) and "args" in c.args]
        return offered[0] if offered else {}

    def _caps(self) -> JsonValue:
        """What a choice would raise the budget to."""
        offered = (c.args["budget"] for c in self.need.choices if isinstance(c, Choice) and "budget" in c.args)
        return next(offered, None)

    def _reason(self) -> Json:
        found = self.query("#reason").results(Input)
        text = next((one.value for one in found), "")
        return {"reason": text} if text else {}

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.input.id == "answer" and event.value:
            self.end_with(("answer", {"call_id": self.need.call, "value": self._meant(event.value)}))

    def _meant(self, typed: str) -> Any:
        options = [option for option in self.need.choices if str(option) == typed]
        return options[0] if options else typed

    def on_button_pressed(self, event: Button.Pressed) -> None:
        name = event.button.id or ""
        if name == "later":
            self.end_with(None)
        elif name == "changed":
            self._with_changes()
        else:
            self._chosen(self._choices[int(name.removeprefix("choice-"))])

    def _chosen(self, choice: Any) -> None:
        verb, args = verb_of(self.need, choice)
        if isinstance(choice, Happened):
            typed = self.query_one("#result", Input).value
            try:
                args = {**args, "result": from_json(typed) if typed else None}
            except ValueError as error:
                self._problem(f"the result is not JSON: {error}")
                return
        if "budget" in args:
            try:
                args = {**args, "budget": from_json(self.query_one("#caps", Input).value)}
            except ValueError as error:
                self._problem(f"the caps are not JSON: {error}")
                return
        self.end_with((verb, {**args, **self._reason()}))

    def _with_changes(self) -> None:
        try:
            args: Any = from_json(self.query_one("#arguments", TextArea).text)
        except ValueError as error:
            self._problem(f"this is not JSON: {error}")
            return
        self.end_with(("approve", {"call_id": self.need.call, "args": args, **self._reason()}))

    def _problem(self, text: str) -> None:
        self.query_one("#problem", Static).update(Text(text))


class RedirectDialog(Dialog):
    """Shows the next step and lets it be rewritten: now, after this step, or from an earlier one.

    Only what would be taken is offered; for the step in progress it says why that is not.
    """

    def __init__(self, view: RunView) -> None:
        super().__init__()
        self._takes = taken_redirects(view)
        self._why = view.consequences.no_redirect
        self._item = next_item(view) if self._takes.now else following(view.plan) if self._takes.next else None

    def compose(self) -> ComposeResult:
        item, takes = self._item, self._takes
        past = [(Content(entry.title), entry.id) for entry in takes.past]
        after = f"After this step (Enter): rewrites “{item.title}”" if item and not takes.now else "After this step"
        with VerticalScroll(classes="box"):
            yield Label("redirect", classes="title")
            if self._why:
                yield Static(Text(f"not now: {self._why}"), id="why-not", classes="problem")
            yield Static(Text(f"next: {item.title}" if item else "what the agent does next"))
            yield Input(value=item.title if item else "", placeholder="what to do instead", id="text", compact=True)
            with Vertical(classes="choices"):
                if takes.now:
                    label = "Now (Enter): the step in progress is taken again with it"
                    yield Button(label, id="now", compact=True, variant="primary")
                if takes.next:
                    yield Button(Content(after), id="next", compact=True)
                if past:
                    yield Select(past, prompt="from an earlier step ...", id="from-step", compact=True)
                    yield Button("From there: undo that step and all later ones", id="from", compact=True)
                yield Button("Never mind (Esc)", id="close", compact=True)
            yield Static("", id="problem", classes="problem")

    def on_mount(self) -> None:
        self.query_one("#text", Input).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if self._takes.now or self._takes.next:
            self._send({"when": "now" if self._takes.now else "next"}, "key")
        else:
            self._from_there("key")

    def on_button_pressed(self, event: Button.Pressed) -> None:
        match event.button.id:
            case "close":
                self.end_with(None)
            case "from":
                self._from_there()
            case when:
                self._send({"when": when})

    def _from_there(self, hand: Hand = "button") -> None:
        select: Select[str] = self.query_one("#from-step", Select)  # pyright: ignore[reportUnknownVariableType]
        chosen = select.value
        if chosen is Select.NULL:
            self.query_one("#problem", Static).update("choose the step first")
        else:
            self._send({"from_step": str(chosen)}, hand)

    def _send(self, more: Json, hand: Hand = "button") -> None:
        text = self.query_one("#text", Input).value.strip()
        if text:
            self.end_with(("redirect", {"text": text, **more}), hand)
        else:
            self.query_one("#problem", Static).update("say what it should do")


class FrameDialog(Dialog):
    """A thought: go back to it, or give it up for a reason."""

    def __init__(self, frame: Json) -> None:
        super().__init__()
        self._frame = frame

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="box"):
            yield Label("thought", classes="title")
            yield Static(Text(str(self._frame.get("goal"))))
            yield Input(placeholder="reason (needed to give it up)", id="reason", compact=True)
            with Vertical(classes="choices"):
                yield Button("go back to it", id="return", compact=True, variant="primary")
                yield Button("give it up", id="abandon", compact=True)
                yield Button("later (Esc)", id="later", compact=True)
            yield Static("", id="problem", classes="problem")

    def on_mount(self) -> None:
        self.query_one("#return", Button).focus()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        frame, reason = self._frame.get("id"), self.query_one("#reason", Input).value.strip()
        match event.button.id:
            case "return":
                self.end_with(("return_to", {"frame": frame, **({"reason": reason} if reason else {})}))
            case "abandon" if reason:
                self.end_with(("abandon", {"frame": frame, "reason": reason}))
            case "abandon":
                self.query_one("#problem", Static).update("nothing is given up silently: say why")
            case _:
                self.end_with(None)


class TextDialog(Dialog):
    """A longer text to read."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape,q,enter,question_mark", "close", "Close")]

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._title = title
        self._text = text

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="box wide"):
            yield Label(Text(short(self._title)), classes="title")
            yield Static(Text(self._text))
            with Horizontal(classes="choices"):
                yield Button("close (Esc)", id="close", compact=True)

    def on_button_pressed(self) -> None:
        self.end_with(None)
