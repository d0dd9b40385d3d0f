"""The list of runs: those that need someone on top; several can be marked and acted on together (R26)."""

from __future__ import annotations

import asyncio
import time
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Input, Static

from standfast.cli.access import Access, asked_with
from standfast.cli.pages import about_unread, by_urgency, run_row
from standfast.cli.words import answer_lines, count, ended, look_of
from standfast.errors import StandfastError
from standfast.records import Json, RunView
from standfast.tui.apps import app_of, table_of
from standfast.tui.dialogs import Asked
from standfast.tui.filtering import HELP as FILTERS
from standfast.tui.filtering import wanted
from standfast.tui.run_screen import RunScreen
from standfast.tui.starting import StartDialog
from standfast.tui.tones import tone

ARMED_SECONDS = 3.0
COLUMNS = ("", "status", "run", "agent", "at", "elapsed", "remark")
NARROW = 80  # columns: below this the list has the end of an id, and no times
ID_END = 7


class RunsScreen(Screen[None]):
    """All runs; Enter opens one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("enter", "open", "Open"),
        ("p", "pause", "Pause/Resume"),
        ("x", "cancel", "Cancel (twice)"),
        ("space", "mark", "Mark"),
        ("a", "approve", "Approve"),
        ("n", "new", "New run"),
        ("slash", "search", "Filter"),
        Binding("c", "clear", "Unmark all", show=False),
        ("q", "app.detach", "Detach"),
        ("question_mark", "app.help", "Help"),
    ]

    def __init__(self, access: Access) -> None:
        super().__init__()
        self._access = access
        self._views: dict[str, RunView] = {}
        self._text = ""
        self._armed: tuple[frozenset[str], float] | None = None
        self.marked: set[str] = set()
        self._names: tuple[str, ...] = ()  # of the columns that are there

    def compose(self) -> ComposeResult:
        yield Static(id="headline")
        yield Input(placeholder=f"show: {FILTERS}", id="search", compact=True)
        yield DataTable(id="runs", cursor_type="row", zebra_stripes=True)
        yield Static("", id="notice")
        yield Footer()

    def on_mount(self) -> None:
        self.query_one("#search").display = False
        table_of(self, "#runs").focus()
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
        views = by_urgency(await self._access.list(wanted(self._text)))
        if not self.query("#runs"):
            return  # the screen is being taken down
        self._views = {view.id: view for view in views}
        self.marked &= self._views.keys()
        table = table_of(self, "#runs")
        chosen = self.chosen()
        narrow = self.size.width < NARROW
        names = tuple(name for name in COLUMNS if not (narrow and name in ("at", "elapsed")))
        table.clear(columns=names != self._names)
        if names != self._names:
            self._names = names
            for name in names:
                table.add_column(name, key=name)
        for view in views:
            look = look_of(view.status)
            cells = [Text("●" if view.id in self.marked else " "), *(Text(cell) for cell in run_row(view))]
            cells[1].stylize(f"bold {tone(self, look.colour)}")
            if view.needs or view.not_read or view.child_needs:
                cells[-1].stylize(f"bold {tone(self, 'red' if about_unread(view) else 'yellow')}")
            if narrow:
                end = view.id if len(view.id) <= ID_END else f"…{view.id[-ID_END:]}"
                cells = [*cells[:2], Text(end), cells[3], cells[-1]]
            table.add_row(*cells, key=view.id)
        if chosen is not None and chosen.id in self._views:
            table.move_cursor(row=table.get_row_index(chosen.id))
        needing = sum(bool(view.needs) for view in views)
        some = f" · {len(self.marked)} marked: p a x act on them" if self.marked else ""
        only = f" · only {self._text}" if self._text else ""
        self._headline(f"{count(len(views), 'run')}" + (f" · {needing} need you" if needing else "") + some + only)
        app_of(self).title = f"({needing}) standfast" if needing else "standfast"

    def _headline(self, words: str) -> None:
        for headline in self.query("#headline").results(Static):
            headline.update(Text(f"{words} · {self._access.where}"))

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

    # --- several at once ------------------------------------------------------------------------------

    async def action_mark(self) -> None:
        """Mark the run under the cursor, or unmark it, and go down one."""
        view = self.chosen()
        if view is not None:
            self.marked ^= {view.id}
            await self.refresh_runs()
            table_of(self, "#runs").action_cursor_down()

    async def action_clear(self) -> None:
        self.marked.clear()
        await self.refresh_runs()

    def meant(self) -> list[RunView]:
        """Those that are marked; if none is, the one under the cursor."""
        one = self.chosen()
        marked = [view for view in self._views.values() if view.id in self.marked]
        return marked or ([one] if one is not None else [])

    def action_pause(self) -> None:
        views = self.meant()
        if len(views) == 1:
            [view] = views
            self._do([(view, "resume" if view.status == "paused" else "pause", {})])
        else:
            self._do([(view, "pause", {}) for view in views if view.status in ("queued", "running")])

    def action_approve(self) -> None:
        asked = [(view, need) for view in self.meant() for need in view.needs if need.kind == "approval"]
        self._do([(view, "approve", {"call_id": need.call or need.id}) for view, need in asked])

    def action_cancel(self) -> None:
        views = [view for view in self.meant() if not ended(view.status)]
        named, now = frozenset(view.id for view in views), time.monotonic()
        if self._armed is not None and self._armed[0] == named and now - self._armed[1] < ARMED_SECONDS:
            self._armed = None
            self._do([(view, "cancel", {}) for view in views])
        elif views:
            self._armed = (named, now)
            self._notice(f"press x again to cancel {views[0].id if len(views) == 1 else f'{len(views)} runs'}")
        else:
            self._notice("there is nothing to cancel: it has ended")

    @work(group="verbs")
    async def _do(self, asked: list[tuple[RunView, str, Json]]) -> None:
        """Each answer is its own; of several, how many were accepted, and the first no."""
        if not asked:
            self._notice("none of them can do that now")
            return
        told = await asyncio.gather(*(self._one(*one) for one in asked))
        noes = [line for yes, line in told if not yes]
        if len(told) == 1:
            self._notice(told[0][1])
        else:
            yes = len(told) - len(noes)
            self._notice(f"{asked[0][1]}: {yes} of {len(told)} accepted" + (f"; {noes[0]}" if noes else ""))
            self.marked.clear()
        await self.refresh_runs()

    async def _one(self, view: RunView, verb: str, args: Json) -> tuple[bool, str]:
        try:
            answer = await self._access.verb(view.id, verb, asked_with("key", verb, args))
            after = await self._access.view(view.id)
        except StandfastError as error:
            return False, f"{view.id}: {error}"
        return bool(answer), answer_lines(verb, answer, after)[0]

    # --- a new one ------------------------------------------------------------------------------------

    @work(group="verbs")
    async def action_new(self) -> None:
        try:
            agents = await self._access.agents()
        except StandfastError as error:
            self._notice(str(error))
            return
        if not agents:
            self._notice("nobody drives an agent here: standfast serve MODULE:AGENT, or standfast run")
            return

        def begin(asked: Asked | None) -> None:
            if asked is not None:
                self._start(asked[1])

        _ = app_of(self).push_screen(StartDialog(agents), begin)

    @work(group="verbs")
    async def _start(self, args: Json) -> None:
        try:
            view = await self._access.start(args)
        except StandfastError as error:
            self._notice(f"not started: {error}")
            return
        _ = app_of(self).push_screen(RunScreen(self._access, view.id))

    def repaint(self) -> None:
        """The ground has changed its colour."""
        self.run_worker(self.refresh_runs(), group="list-once")

    def _notice(self, text: str) -> None:
        for notice in self.query("#notice").results(Static):  # none, once the screen is being taken down
            notice.update(Text(text))
