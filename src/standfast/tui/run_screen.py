"""One run: its bar, its plan, its panes; what it needs comes as a dialog."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any, ClassVar

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.css.query import NoMatches
from textual.screen import Screen
from textual.widgets import Button, DataTable, Input, Static, TabbedContent, TextArea

from standfast.cli.access import Access
from standfast.cli.remote import RemoteAccess
from standfast.cli.starting import merge_patch
from standfast.cli.words import answer_lines, ended, short
from standfast.errors import Misuse, StandfastError
from standfast.events import TextDelta, TextFlushed
from standfast.records import Json, RunView
from standfast.tui.apps import app_of
from standfast.tui.bar import Bar
from standfast.tui.dialogs import Asked, Dialog, FrameDialog, NeedDialog, RedirectDialog, TextDialog
from standfast.tui.model import RunModel
from standfast.tui.panes import PANES, Panes, Plan

ARMED_SECONDS = 3.0
FRAME = 0.05  # seconds between two drawings of live text
LOOK_SECONDS = 1.0
WHENS = ("next", "now", "later")


class RunScreen(Screen[None]):
    """A run that is watched; leaving does nothing to it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("p", "pause", "Pause/Resume"),
        ("r", "redirect", "Redirect"),
        ("x", "cancel", "Cancel (twice)"),
        ("m", "message", "Message"),
        ("a", "answer", "Answer"),
        ("e", "edit", "Edit"),
        ("s", "step", "Step"),
        ("f", "fork", "Fork"),
        Binding("F", "force", "Force stop", show=False),
        ("escape", "back", "Back"),
        ("q", "app.detach", "Detach"),
        ("question_mark", "app.help", "Help"),
        *(Binding(str(n), f"pane('{name}')", show=False) for n, name in enumerate(PANES, 1)),
    ]

    def __init__(self, access: Access, run: str) -> None:
        super().__init__()
        self._access = access
        self.run_id = run
        self.view: RunView | None = None
        self.model = RunModel()
        self._news = asyncio.Event()
        self._dirty = True
        self._armed = 0.0
        self._offered: set[str] = set()  # needs that have been put before the person
        self._state_seq = -1
        self._receipt_seq = -1

    def compose(self) -> ComposeResult:
        yield Static(id="headline")
        yield Static(id="needs")
        with Horizontal(id="body"):
            yield Plan()
            yield Panes()
        with Horizontal(id="say"):
            yield Input(placeholder="m: message to the agent, Enter sends", id="message", compact=True)
            yield Button("next", id="when", compact=True)
        yield Static("", id="notice")
        yield Bar()

    def on_mount(self) -> None:
        self.query_one(Bar).can_force = isinstance(self._access, RemoteAccess)
        self.query_one("#needs").display = False
        self.query_one(Panes).query_one("#output-scroll").focus()
        self.set_interval(FRAME, self._draw)
        self._follow()
        self._look()

    # --- what comes in ------------------------------------------------------------------------------

    @work(exclusive=True, group="follow")
    async def _follow(self) -> None:
        """Every event once, in order; reconnects by itself, and says so."""
        wait = 0.5
        while True:
            stream = self._access.events(self.run_id, self.model.seq)
            try:
                async for event in stream:
                    wait = 0.5
                    self.model.take(event)
                    self._dirty = True
                    if not isinstance(event, TextDelta | TextFlushed):
                        self._news.set()
                return
            except StandfastError as error:
                self._notice(f"{error.message}; trying again", bad=True)
                await asyncio.sleep(wait)
                wait = min(5.0, wait * 2)
            finally:
                await stream.aclose()

    @work(exclusive=True, group="look")
    async def _look(self) -> None:
        """The run as it is, whenever something happened, and once a second."""
        while True:
            self._news.clear()
            try:
                await self._show(await self._access.view(self.run_id))
            except StandfastError as error:
                self._notice(f"{error.message}; trying again", bad=True)
            except NoMatches:
                return  # the screen is being taken down
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._news.wait()
            except TimeoutError:
                pass
            await asyncio.sleep(FRAME)

    async def _show(self, view: RunView) -> None:
        before, self.view = self.view, view
        self.query_one(Bar).show(view)
        self.query_one(Plan).show(view)
        panes = self.query_one(Panes)
        panes.show(view)
        self.query_one("#headline", Static).update(
            Text(f"{view.agent} · {view.id} · {self._access.where} · ? keys", no_wrap=True)
        )
        self._show_needs(view)
        if view.seq != self._state_seq and not panes.editing:
            self._state_seq = view.seq
            panes.show_state(await self._access.state(view.id), editable=view.status == "paused")
        if view.seq != self._receipt_seq and (ended(view.status) or view.status == "paused"):
            self._receipt_seq = view.seq
            receipt = await self._access.receipt(view.id)
            if receipt is not None:
                panes.show_receipt(receipt)
        if before is not None and before.status != view.status and view.status == "cancelled":
            self.action_pane("receipt")

    def _show_needs(self, view: RunView) -> None:
        banner = self.query_one("#needs", Static)
        banner.display = bool(view.needs)
        if not view.needs:
            return
        first, *others = view.needs
        more = f" (and {len(others)} more)" if others else ""
        banner.update(Text(f"⌨ needs you: {first.kind}: {short(first.text, 110)}{more} · a answers"))
        fresh = next((need for need in view.needs if need.id not in self._offered), None)
        typing = isinstance(self.focused, Input | TextArea)
        if fresh is not None and self.is_current and not typing:
            self._offered.add(fresh.id)
            self._ask(NeedDialog(view, fresh))

    def _draw(self) -> None:
        if self._dirty:
            self._dirty = False
            self.query_one(Panes).show_model(self.model)

    # --- what a person does ---------------------------------------------------------------------------

    def on_bar_pressed(self, event: Bar.Pressed) -> None:
        match event.which:
            case "pause":
                self.action_pause()
            case "redirect":
                self.action_redirect()
            case "cancel":
                self._do("cancel", {})  # a click is meant: no confirmation
            case _:
                self.action_force()

    def action_pause(self) -> None:
        if self.view is not None:
            self._do("resume" if self.view.status == "paused" else "pause", {})

    def action_redirect(self) -> None:
        if self.view is not None:
            self._ask(RedirectDialog(self.view))

    def action_cancel(self) -> None:
        now = time.monotonic()
        bar = self.query_one(Bar)
        if now - self._armed < ARMED_SECONDS:
            self._armed, bar.armed = 0.0, False
            self._do("cancel", {})
        else:
            self._armed, bar.armed = now, True
            self.set_timer(ARMED_SECONDS, self._disarm)
        bar.draw()

    def _disarm(self) -> None:
        if time.monotonic() - self._armed >= ARMED_SECONDS * 0.9:
            self.query_one(Bar).armed = False
            self.query_one(Bar).draw()

    def action_force(self) -> None:
        if self.query_one(Bar).can_force:
            self._do("force", {})

    def action_answer(self) -> None:
        if self.view is not None and self.view.needs:
            self._ask(NeedDialog(self.view, self.view.needs[0]))
        else:
            self._notice("nothing is needed of you")

    def action_message(self) -> None:
        self.query_one("#message", Input).focus()

    def action_step(self) -> None:
        self._do("step_once", {})

    def action_pane(self, name: str) -> None:
        self.query_one(TabbedContent).active = name

    def action_edit(self) -> None:
        self.action_pane("state")
        if self.view is None or self.view.status != "paused":
            self._notice("only a paused run can be edited: p pauses it", bad=True)
        else:
            self.query_one(Panes).edit()

    def action_back(self) -> None:
        if isinstance(self.focused, Input | TextArea):
            self.query_one(Panes).stop_editing()
            self._state_seq = -1
            self.query_one(Panes).query_one("#output-scroll").focus()
        else:
            _ = app_of(self).pop_screen()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.input.id == "message" and event.value.strip():
            self._do("message", {"text": event.value.strip(), "when": str(self.query_one("#when", Button).label)})
            event.input.value = ""

    def on_button_pressed(self, event: Button.Pressed) -> None:
        if event.button.id == "when":
            at = WHENS.index(str(event.button.label))
            event.button.label = WHENS[(at + 1) % len(WHENS)]
        elif event.button.id == "save":
            self._save()

    def _save(self) -> None:
        panes = self.query_one(Panes)
        try:
            patch = merge_patch(panes.state, json.loads(panes.typed_state))
        except (ValueError, Misuse) as error:
            self._notice(f"not saved: {error}", bad=True)
            return
        panes.stop_editing()
        if patch and self.view is not None:
            self._do("edit", {"patch": patch, "if_seq": self._state_seq})
        self._state_seq = -1

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        key = str(event.row_key.value)
        table = event.data_table.id  # pyright: ignore[reportUnknownMemberType]
        if table == "calls-table" and key in self.model.calls:
            _ = app_of(self).push_screen(TextDialog(self.model.calls[key].name, _call_text(self.model, key)))
        elif table == "frames-table" and self.view is not None:
            frame = next((one for one in self.view.frames if one.get("id") == key), None)
            if frame is not None:
                self._ask(FrameDialog(frame))

    def _ask(self, dialog: Dialog) -> None:
        def carry_out(asked: Asked | None) -> None:
            if asked is not None:
                self._do(*asked)

        _ = app_of(self).push_screen(dialog, carry_out)

    @work(group="verbs")
    async def _do(self, verb: str, args: Json) -> None:
        """Buttons react at once; the state word changes only when the run does."""
        self._notice(f"{verb.replace('_', ' ')} ...")
        try:
            answer = await self._carried_out(verb, args)
            view = await self._access.view(self.run_id)
        except StandfastError as error:
            self._notice(str(error), bad=True)
            return
        lines = answer_lines(verb.replace("_", " "), answer, view)
        note = lines[1].strip() if len(lines) > 1 and verb in ("message", "redirect") else ""
        self._notice(f"{lines[0]}{f' · {note}' if note else ''}", bad=not answer)
        self._news.set()

    async def _carried_out(self, verb: str, args: Json) -> Any:
        try:
            return await self._access.verb(self.run_id, verb, args)
        except Misuse:
            if verb != "answer" or not isinstance(args.get("value"), str):
                raise
            try:
                value = json.loads(str(args["value"]))  # the question may take JSON
            except ValueError:
                value = None
            if value is None:
                raise
            return await self._access.verb(self.run_id, verb, {**args, "value": value})

    @work(group="verbs")
    async def action_fork(self) -> None:
        try:
            view = await self._access.fork(self.run_id, {})
        except StandfastError as error:
            self._notice(str(error), bad=True)
            return
        _ = app_of(self).push_screen(RunScreen(self._access, view.id))

    def _notice(self, text: str, *, bad: bool = False) -> None:
        for notice in self.query("#notice").results(Static):  # none, once the screen is being taken down
            notice.set_class(bad, "bad")
            notice.update(Text(short(text, 300)))


def _call_text(model: RunModel, key: str) -> str:
    call = model.calls[key]
    parts = [f"{call.tool} [{call.effect}]  {call.status}", f"id: {call.id}"]
    if call.seconds is not None:
        parts.append(f"took {call.seconds:.2f} s")
    if call.why:
        parts.append(f"why: {call.why}")
    if call.error:
        parts.append(f"error: {call.error}")
    parts.append(f"\narguments\n{json.dumps(call.args, indent=2, ensure_ascii=False)}")
    parts.append(f"\nresult\n{json.dumps(call.result, indent=2, ensure_ascii=False)}")
    return "\n".join(parts)
