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

from standfast.cli.access import Access, asked_with
from standfast.cli.starting import merge_patch
from standfast.cli.words import answer_lines, child_words, ended, short
from standfast.errors import Misuse, StandfastError
from standfast.events import TextDelta, TextFlushed
from standfast.records import Hand, Json, RunView
from standfast.redirectable import taken_redirects
from standfast.tui.acting import HandBackDialog, PerformDialog, StepDialog
from standfast.tui.apps import app_of
from standfast.tui.bar import Bar
from standfast.tui.details import call_text
from standfast.tui.dialogs import Asked, Dialog, FrameDialog, NeedDialog, RedirectDialog, TextDialog
from standfast.tui.model import RunModel
from standfast.tui.panes import PANES, Panes
from standfast.tui.plan import Plan
from standfast.tui.saving import saved

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
        ("t", "take_over", "Take over / hand back"),
        ("u", "perform", "Perform a tool"),
        Binding("S", "suspicious", "Suspicious output: stop (twice)", show=False),
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
        self._armed = ("", 0.0)
        self._would: Json | None = None  # what force would kill, once it may be wanted
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
        self.query_one("#needs").display = False
        self._begin()

    def _begin(self) -> None:
        """Once everything stands: what is inside of others is put there a moment later than they are."""
        if not self.query("#output-scroll"):
            self.set_timer(FRAME, self._begin)
            return
        self.query_one("#output-scroll").focus()
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
        self.query_one(Plan).show(view, self.model)
        panes = self.query_one(Panes)
        panes.show(view)
        self.query_one("#headline", Static).update(Text(f"{view.agent} · {view.id} · ? keys · {self._access.where}"))
        self._show_needs(view)
        if view.seq != self._state_seq and not panes.editing:
            self._state_seq = view.seq
            panes.show_state(await self._access.state(view.id), editable=view.status == "paused")
        if view.seq != self._receipt_seq and (ended(view.status) or view.status == "paused"):
            self._receipt_seq = view.seq
            result = await self._access.result(view.id) if view.status == "done" else None
            panes.show_receipt(await self._access.receipt(view.id), view, result)
        if before is not None and before.status != view.status and view.status == "cancelled":
            self.action_pane("receipt")

    def _show_needs(self, view: RunView) -> None:
        banner = self.query_one("#needs", Static)
        banner.display = bool(view.needs or view.child_needs)
        if not view.needs:
            banner.update(Text("; ".join(child_words(*one) for one in view.child_needs.items())))
            return
        first, *others = view.needs
        more = f" (and {len(others)} more)" if others else ""
        banner.update(Text(f"⌨ needs you: {first.kind}: {short(first.words, 110)}{more} · a answers"))
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
                self.action_pause("button")
            case "redirect":
                self.action_redirect()
            case "cancel":
                self._do("cancel", {}, "button")  # a click is meant: no confirmation
            case _:
                self.action_force()

    def action_pause(self, hand: Hand = "key") -> None:
        if self.view is not None:
            self._do("resume" if self.view.status == "paused" else "pause", {}, hand)

    def action_redirect(self) -> None:
        if self.view is None:
            return
        if not taken_redirects(self.view):
            self.notify(f"redirect is not offered: {self.view.consequences.no_redirect}", severity="warning")
        else:
            self._ask(RedirectDialog(self.view))

    def action_cancel(self) -> None:
        if self._twice("x"):
            self._do("cancel", {})

    def action_suspicious(self) -> None:
        """Stops the run and marks the transcript where this screen was."""
        if self._twice("S"):
            words = self.model.last_words()
            self._do("cancel", {"reason": "suspicious output", "suspicious": True if words is None else words})

    def _twice(self, key: str) -> bool:
        """Was this key pressed a moment ago too? The first press says so."""
        now, bar = time.monotonic(), self.query_one(Bar)
        second = self._armed[0] == key and now - self._armed[1] < ARMED_SECONDS
        self._armed = ("", 0.0) if second else (key, now)
        bar.armed, bar.suspecting = (not second and key == one for one in ("x", "S"))
        if not second:
            self.set_timer(ARMED_SECONDS, self._disarm)
        bar.draw()
        return second

    def _disarm(self) -> None:
        if time.monotonic() - self._armed[1] >= ARMED_SECONDS * 0.9:
            bar = self.query_one(Bar)
            bar.armed = bar.suspecting = False
            bar.draw()

    @work(exclusive=True, group="stuck")
    async def on_bar_stuck(self) -> None:
        """A stop takes its time: say what force would kill, or what else can be done."""
        try:
            self._would = await self._access.would_kill(self.run_id)
        except StandfastError as error:
            self._notice(str(error), bad=True)
            return
        kills = str(self._would["kills"])
        known = self._would.get("pid") is not None
        for bar in self.query(Bar):
            bar.force = ("Force stop  F", f"kills {kills}") if known else ("Stuck?  F", kills)

    def action_force(self) -> None:
        if self.query_one(Bar).force is None or self._would is None:
            self._notice("there is no stop that has to be forced")
        elif self._would.get("pid") is not None:
            self._do("force", {})
        else:
            _ = app_of(self).push_screen(TextDialog("what can be done", str(self._would["kills"])))

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

    def repaint(self) -> None:
        """The ground has changed its colour."""
        self.query_one(Panes).repaint()
        self.model.changed_calls |= self.model.calls.keys()
        self._dirty = True
        self._receipt_seq = -1
        self._news.set()

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
            _ = app_of(self).push_screen(TextDialog(self.model.calls[key].name, call_text(self.model, key)))
        elif table == "frames-table" and self.view is not None:
            frame = next((one for one in self.view.frames if one.get("id") == key), None)
            if frame is not None:
                self._ask(FrameDialog(frame))

    def _ask(self, dialog: Dialog) -> None:
        def carry_out(asked: Asked | None) -> None:
            match asked:
                case None:
                    return
                case ("fork", args):
                    self._fork(args)
                case ("perform", args):
                    self._perform(args)
                case ("save", _):
                    self._save_all()
                case (verb, args):
                    self._do(verb, args, "button")

        _ = app_of(self).push_screen(dialog, carry_out)

    @work(group="verbs")
    async def _do(self, verb: str, args: Json, hand: Hand = "key") -> None:
        """Buttons react at once; the state word changes only when the run does."""
        self._notice(f"{verb.replace('_', ' ')} ...")
        try:
            answer = await self._carried_out(verb, args if "trigger" in args else asked_with(hand, verb, args))
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

    def action_fork(self) -> None:
        if self.view is not None:
            self._ask(StepDialog(self.view, lambda step: self._access.state(self.run_id, step)))

    def action_take_over(self) -> None:
        if self.view is not None and self.view.taken_by:
            self._ask(HandBackDialog())
        else:
            self._do("take_over", {})

    @work(group="verbs")
    async def action_perform(self) -> None:
        view = self.view
        if view is None or not view.taken_by:
            self._notice("take the run over first: t", bad=True)
            return
        try:
            agents = await self._access.agents()
        except StandfastError as error:
            self._notice(str(error), bad=True)
            return
        tools: Any = next((one.get("tools") for one in agents if one["name"] == view.agent), None)
        if tools:
            self._ask(PerformDialog(tools))
        else:
            self._notice(f"nobody drives {view.agent} now, or it has no tools", bad=True)

    @work(group="verbs")
    async def _fork(self, args: Json) -> None:
        try:
            view = await self._access.fork(self.run_id, args)
        except StandfastError as error:
            self._notice(str(error), bad=True)
            return
        _ = app_of(self).push_screen(RunScreen(self._access, view.id))

    @work(group="verbs")
    async def _perform(self, args: Json) -> None:
        tool = str(args["tool"])
        self._notice(f"{tool} is being performed ...")
        given: Any = args["args"]
        try:
            result = await self._access.perform(self.run_id, tool, given, "")
        except StandfastError as error:
            self._notice(f"{tool}: {error}", bad=True)
        else:
            self._notice(f"{tool} performed: {short(result, 200)}")
        self._news.set()

    @work(group="verbs")
    async def _save_all(self) -> None:
        try:
            path = await saved(self._access, self.run_id)
        except (StandfastError, OSError) as error:
            self._notice(f"not saved: {error}", bad=True)
        else:
            self._notice(f"saved as {path}")

    def _notice(self, text: str, *, bad: bool = False) -> None:
        for notice in self.query("#notice").results(Static):  # none, once the screen is being taken down
            notice.set_class(bad, "bad")
            notice.update(Text(short(text, 300)))
