"""The panes of a run: its plan, what it says, calls, thoughts, mail, state, receipt, record."""

from __future__ import annotations

import json
from typing import Any, Final

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Button, DataTable, RichLog, Static, TabbedContent, TabPane, TextArea

from standfast.cli.pages import frame_words, receipt_page
from standfast.cli.words import PLAN_SHAPES, flying, short
from standfast.records import Receipt, RunView
from standfast.tui.apps import table_of
from standfast.tui.model import RunModel

PANES: Final = ("output", "calls", "thoughts", "mail", "state", "receipt", "record")
_COLOURS: Final = {"running": "bold green", "done": "blue", "dropped": "strike dim", "queued": ""}
_CALLS: Final = {"running": "green", "finished": "blue", "asks": "yellow", "in doubt": "yellow", "failed": "red"}


class Plan(VerticalScroll):
    """The plan with the state of each line, and what is in flight."""

    def __init__(self) -> None:
        super().__init__(id="plan", can_focus=False)

    def compose(self) -> ComposeResult:
        yield Static(id="plan-text")

    def show(self, view: RunView) -> None:
        """The plan as it is now."""
        text = Text()
        for item in view.plan:
            text.append(f"{PLAN_SHAPES[item.status]} {item.title}\n", style=_COLOURS[item.status])
            if item.was:
                text.append(f"  was: {item.was}\n", style="dim")
        if not view.plan:
            text.append("no plan: one step\nafter the other\n", style="dim")
        if view.in_flight:
            text.append(f"\nin flight\n{flying(view.in_flight)}\n", style="cyan")
        if view.changed:
            text.append(f"\nwhat you changed\n{view.changed}\n", style="cyan")
        if view.error:
            text.append(f"\n{view.error}\n", style="red")
        self.query_one("#plan-text", Static).update(text)


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
                yield Button("Save changes", id="save", compact=True)
            with TabPane("Receipt", id="receipt"), VerticalScroll():
                yield Static("nothing has been stopped yet", id="receipt-text")
            with TabPane("Record", id="record"):
                yield RichLog(id="record-log", wrap=True)

    def on_mount(self) -> None:
        calls = table_of(self, "#calls-table")
        for name in ("call", "effect", "status", "took"):
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
            frames.add_row(Text(frame_words(frame), style="magenta" if held else "bold"), key=str(frame.get("id")))
        if frames.row_count:
            frames.move_cursor(row=min(at, frames.row_count - 1))
        self.query_one("#no-frames").display = not view.frames
        text = Text()
        for letter in reversed(view.mail):
            became = f"read in step {letter.step}" if letter.status == "consumed" else letter.disposition
            why = f" ({letter.reason})" if letter.reason else ""
            text.append(f"{letter.kind} from {letter.by or 'someone'}", style="bold")
            text.append(f"  {became}{why}\n", style="cyan")
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

    def show_receipt(self, receipt: Receipt) -> None:
        """What the last stop did."""
        self.query_one("#receipt-text", Static).update(Text("\n".join(receipt_page(receipt))))

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

    def stop_editing(self) -> None:
        self.editing = False
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
            self.query_one("#output-text", Static).update(_spoken(output))
            if at_end:  # who has scrolled back reads in peace
                scroll.scroll_end(animate=False)
        self._show_calls(model)
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
            status = Text(call.status, style=_CALLS.get(call.status, "yellow"))
            took = "" if call.seconds is None else f"{call.seconds:.1f} s"
            if call.id in table.rows:
                table.update_cell(call.id, "status", status)
                table.update_cell(call.id, "took", took)
            else:
                table.add_row(Text(short(call.name, 40)), call.effect, status, took, key=call.id)


def _spoken(output: str) -> Text:
    text = Text()
    for line in output.splitlines():
        style = "bold cyan" if line.startswith("── ") else "red" if line.startswith("! tripwire: ") else ""
        text.append(f"{line}\n", style=style)
    return text
