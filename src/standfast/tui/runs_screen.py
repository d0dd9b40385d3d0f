"""The list of runs: those that need someone on top (R26)."""

from __future__ import annotations

import asyncio
import time
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Input, Static

from standfast.cli.access import Access, Wanted
from standfast.cli.pages import by_urgency, run_row
from standfast.cli.words import answer_lines, count, look_of
from standfast.errors import StandfastError
from standfast.records import Json, RunView
from standfast.tui.apps import app_of, table_of
from standfast.tui.run_screen import RunScreen

ARMED_SECONDS = 3.0
COLUMNS = ("status", "run", "agent", "at", "elapsed", "remark")


class RunsScreen(Screen[None]):
    """All runs; Enter opens one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("enter", "open", "Open"),
        ("p", "pause", "Pause/Resume"),
        ("x", "cancel", "Cancel (twice)"),
        ("slash", "search", "Search"),
        ("q", "app.detach", "Detach"),
        ("question_mark", "app.help", "Help"),
    ]

    def __init__(self, access: Access) -> None:
        super().__init__()
        self._access = access
        self._views: dict[str, RunView] = {}
        self._text = ""
        self._armed: tuple[str, float] | None = None

    def compose(self) -> ComposeResult:
        yield Static(id="headline")
        yield Input(placeholder="search: agent, status, plan, label ...", id="search", compact=True)
        yield DataTable(id="runs", cursor_type="row", zebra_stripes=True)
        yield Static("", id="notice")
        yield Footer()

    def on_mount(self) -> None:
        table = table_of(self, "#runs")
        for name in COLUMNS:
            table.add_column(name, key=name)
        self.query_one("#search").display = False
        table.focus()
        self._watch()

    @work(exclusive=True, group="list")
    async def _watch(self) -> None:
        while True:
            try:
                await self.refresh_runs()
                await self._access.changed(1.0)
            except StandfastError as error:
                self._headline(f"cannot be reached: {error.message}; trying again")
                await asyncio.sleep(1.0)
            await asyncio.sleep(0.2)  # a busy store is looked at five times a second

    async def refresh_runs(self) -> None:
        """The list as it is now; the cursor stays on its run."""
        views = by_urgency(await self._access.list(Wanted(text=self._text, limit=200)))
        self._views = {view.id: view for view in views}
        table = table_of(self, "#runs")
        chosen = self.chosen()
        table.clear()
        for view in views:
            look = look_of(view.status)
            cells = [Text(cell) for cell in run_row(view)]
            cells[0].stylize(f"bold {look.colour}")
            if view.needs:
                cells[-1].stylize("bold yellow")
            table.add_row(*cells, key=view.id)
        if chosen is not None and chosen.id in self._views:
            table.move_cursor(row=table.get_row_index(chosen.id))
        needing = sum(bool(view.needs) for view in views)
        self._headline(f"{count(len(views), 'run')}" + (f" · {needing} need you" if needing else ""))
        app_of(self).title = f"({needing}) standfast" if needing else "standfast"

    def _headline(self, words: str) -> None:
        self.query_one("#headline", Static).update(Text(f"standfast · {self._access.where} · {words}"))

    def chosen(self) -> RunView | None:
        """The run under the cursor."""
        table = table_of(self, "#runs")
        if not table.row_count:
            return None
        key = table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value
        return self._views.get(str(key))

    def on_data_table_row_selected(self) -> None:
        self.action_open()

    def action_open(self) -> None:
        view = self.chosen()
        if view is not None:
            _ = app_of(self).push_screen(RunScreen(self._access, view.id))

    def action_search(self) -> None:
        search = self.query_one("#search", Input)
        search.display = True
        search.focus()

    async def on_input_submitted(self, event: Input.Submitted) -> None:
        self._text = event.value.strip()
        event.input.display = bool(self._text)
        self.query_one(DataTable).focus()
        await self.refresh_runs()

    def action_pause(self) -> None:
        view = self.chosen()
        if view is not None:
            self._do(view, "resume" if view.status == "paused" else "pause", {})

    def action_cancel(self) -> None:
        view = self.chosen()
        if view is None:
            return
        now = time.monotonic()
        if self._armed is not None and self._armed[0] == view.id and now - self._armed[1] < ARMED_SECONDS:
            self._armed = None
            self._do(view, "cancel", {})
        else:
            self._armed = (view.id, now)
            self._notice(f"press x again to cancel {view.id}")

    @work(group="verbs")
    async def _do(self, view: RunView, verb: str, args: Json) -> None:
        try:
            answer = await self._access.verb(view.id, verb, args)
            after = await self._access.view(view.id)
        except StandfastError as error:
            self._notice(str(error))
            return
        self._notice(answer_lines(verb, answer, after)[0])
        await self.refresh_runs()

    def _notice(self, text: str) -> None:
        self.query_one("#notice", Static).update(Text(text))
