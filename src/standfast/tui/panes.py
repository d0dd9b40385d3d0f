"""The panes of a run: what it says, calls, thoughts, mail, state, receipt, record, timeline."""

from __future__ import annotations

import json
from typing import Any, Final

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Button, DataTable, RichLog, Static, TabbedContent, TabPane, TextArea

from standfast.cli.pages import frame_words, receipt_page
from standfast.cli.screens import harmless
from standfast.cli.starting import merge_patch
from standfast.cli.words import SUSPICIOUS, UNREAD_SHAPE, Colour, short
from standfast.errors import Misuse
from standfast.names import name_words
from standfast.records import Receipt, RunView
from standfast.tui.apps import table_of
from standfast.tui.model import RunModel
from standfast.tui.timeline import Timeline
from standfast.tui.tones import effect_tone, tone

PANES: Final = ("output", "calls", "thoughts", "mail", "state", "receipt", "record", "timeline")
_CALLS: Final[dict[str, Colour]] = {"running": "green", "finished": "blue", "failed": "red", "undone": "cyan"}


class Panes(Vertical):
    """Everything else about a run, one pane at a time."""

    def __init__(self) -> None:
        super().__init__(id="panes")
        self.editing = False
        self.state: Any = None
        self._recorded = 0
        self._shown_output = ""

    def compose(self) -> ComposeResult:
        with TabbedContent(initial="output"):
            with TabPane("Output", id="output"), VerticalScroll(id="output-scroll"):
                yield Static(id="output-text")
            with TabPane("Calls", id="calls"):
                yield DataTable(id="calls-table", cursor_type="row")
            with TabPane("Thoughts", id="thoughts"):
                yield Static("nothing is on hold", id="no-frames")
                yield DataTable(id="frames-table", cursor_type="row", show_header=False)
            with TabPane("Mail", id="mail"), VerticalScroll():
                yield Static("no mail", id="mail-text")
            with TabPane("State", id="state"):
                yield TextArea(id="state-text", read_only=True, show_line_numbers=False, compact=True)
                yield Static("", id="patch")
                yield Button("Save changes", id="save", compact=True)
            with TabPane("Receipt", id="receipt"), VerticalScroll():
                yield Static("nothing has been stopped yet", id="receipt-text")
            with TabPane("Record", id="record"):
                yield RichLog(id="record-log", wrap=True)
            with TabPane("Time", id="timeline"):
                yield Timeline()

    def on_mount(self) -> None:
        calls = table_of(self, "#calls-table")
        for name in ("call", "step", "effect", "status", "took"):
            calls.add_column(name, key=name)
        frames = table_of(self, "#frames-table")
        frames.add_column("thought", key="thought")
        self.query_one("#save").display = False

    # --- from the view ------------------------------------------------------------------------------

    def show(self, view: RunView) -> None:
        """Thoughts and mail as they are now."""
        frames = table_of(self, "#frames-table")
        at = frames.cursor_row
        frames.clear()
        for frame in view.frames:
            held = frame.get("status") == "held"
            style = tone(self, "magenta") if held else "bold"
            frames.add_row(Text(frame_words(frame), style=style), key=str(frame.get("id")))
        if frames.row_count:
            frames.move_cursor(row=min(at, frames.row_count - 1))
        self.query_one("#no-frames").display = not view.frames
        text = Text()
        for letter in reversed(view.mail):
            text.append(f"{letter.kind} from {name_words(letter.by, letter.by_token)}", style="bold")
            colour = tone(self, "red" if letter.fate == "not_read" else "cyan")
            text.append(f"  {letter.disposition}\n", style=colour)
            text.append(f"  {letter.text}\n")
        self.query_one("#mail-text", Static).update(text if view.mail else "no mail")

    def show_state(self, state: Any, *, editable: bool) -> None:
        """The state as a document; it can be edited while the run is paused."""
        self.state = state
        area = self.query_one("#state-text", TextArea)
        typed = json.dumps(state, indent=2, ensure_ascii=False)
        if area.text != typed:
            area.load_text(typed)
        area.border_subtitle = "e edits" if editable else "pause the run to edit"

    def show_receipt(self, receipt: Receipt | None, view: RunView, result: Any) -> None:
        """What the last stop did, what the run came to, and how to go on from there."""
        text = Text()
        if receipt is not None and view.status != "done":
            lines = receipt_page(receipt)
            text.append(f"{lines[0]}\n", style="bold")
            for line in lines[1:]:
                bad = line.startswith(("  left behind", "  suspicious", f"  {UNREAD_SHAPE}"))
                text.append(f"{line}\n", style=tone(self, "red") if bad else "")
        if view.status == "done":
            text.append("it came to its end by itself\n", style="bold").append("\nresult\n", style="dim")
            text.append(harmless(result if isinstance(result, str) else json.dumps(result, indent=2)) + "\n")
        if view.status == "failed":
            text.append(f"{view.error}\n", style=tone(self, "red")).append(f"{view.traceback}\n", style="dim")
        text.append("\nf: fork, edit and rerun, go back to a step, save", style="dim")
        self.query_one("#receipt-text", Static).update(text)

    # --- editing ------------------------------------------------------------------------------------

    @property
    def typed_state(self) -> str:
        return self.query_one("#state-text", TextArea).text

    def edit(self) -> None:
        """From now on the document is the person's, until it is saved or left."""
        self.editing = True
        area = self.query_one("#state-text", TextArea)
        area.read_only = False
        self.query_one("#save").display = True
        area.focus()

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        """What saving would change, before it does."""
        if event.text_area.id != "state-text" or not self.editing:
            return
        try:
            patch = merge_patch(self.state, json.loads(event.text_area.text))
        except (ValueError, Misuse):
            words = Text("this is not JSON yet", style=tone(self, "red"))
        else:
            words = Text(f"will change: {short(patch, 200)}" if patch else "nothing is changed", style="dim")
        self.query_one("#patch", Static).update(words)

    def stop_editing(self) -> None:
        self.editing = False
        self.query_one("#patch", Static).update("")
        self.query_one("#state-text", TextArea).read_only = True
        self.query_one("#save").display = False

    # --- from the events ------------------------------------------------------------------------------

    def show_model(self, model: RunModel) -> None:
        """What was said and done since the last drawing."""
        output = model.output()
        if output != self._shown_output:
            self._shown_output = output
            scroll = self.query_one("#output-scroll", VerticalScroll)
            at_end = scroll.max_scroll_y - scroll.scroll_y <= 2
            self.query_one("#output-text", Static).update(self._spoken(output))
            if at_end:  # who has scrolled back reads in peace
                scroll.scroll_end(animate=False)
        self._show_calls(model)
        self.query_one(Timeline).show(model)
        log = self.query_one("#record-log", RichLog)
        new = min(len(model.record), model.recorded - self._recorded)
        for line in list(model.record)[len(model.record) - new :]:
            log.write(Text(line))
        self._recorded = model.recorded

    def _show_calls(self, model: RunModel) -> None:
        table = table_of(self, "#calls-table")
        changed = [call for id_ in model.changed_calls if (call := model.calls.get(id_)) is not None]
        model.changed_calls.clear()
        for call in sorted(changed, key=lambda call: call.began):
            status = Text(call.status, style=tone(self, _CALLS.get(call.status, "yellow")))
            effect = Text(call.effect, style=effect_tone(self, call.effect))
            took = "" if call.seconds is None else f"{call.seconds:.1f} s"
            if call.id in table.rows:
                table.update_cell(call.id, "status", status)
                table.update_cell(call.id, "took", took)
            else:
                table.add_row(Text(short(call.name, 40)), str(call.step), effect, status, took, key=call.id)
            table.update_cell(call.id, "effect", effect)
            table.update_cell(call.id, "step", str(call.step))

    def _spoken(self, output: str) -> Text:
        text = Text()
        for line in output.splitlines():
            head, flag = line.startswith("── "), line == SUSPICIOUS or line.startswith("! tripwire: ")
            style = f"bold {tone(self, 'cyan' if head else 'red')}" if head or flag else ""
            text.append(f"{line}\n", style=style)
        return text

    def repaint(self) -> None:
        """The ground has changed its colour: everything is written anew."""
        self._shown_output = ""
