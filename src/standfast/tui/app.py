"""The app of `standfast watch`. Leaving it detaches: runs go on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import ClassVar

from textual.app import App
from textual.binding import Binding, BindingType

from standfast.cli.access import Access, Opened, find
from standfast.tui.dialogs import TextDialog
from standfast.tui.run_screen import RunScreen
from standfast.tui.runs_screen import RunsScreen

HELP = """\
p        pause, or resume what is paused
r        redirect: rewrite what it does next
x x      cancel (the second x within three seconds)
S S      cancel, and mark what it says as suspicious
m        write a message
a        answer what it needs
e        edit the state of a paused run
s        take one step of a paused run
t        take it over; again: hand it back
u        perform a tool while you have it
f        from a step: fork, rerun, undo, save
F        force a stop that takes too long
1 ... 8  panes, from left to right
Enter    details of a call, or of a thought
Escape   back to the list, or out of a field
d        dark or light
q        detach: the run goes on

in the list
Space    mark: p, a and x act on all marked
c        unmark all
a        approve what they ask for
n        new run
/        show some: words, agent:NAME, needs,
         status:live, label=value
"""


class WatchApp(App[None]):
    """Runs of a store or a server: the list, and one run at a time."""

    CSS_PATH = "watch.tcss"
    TITLE = "standfast"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        ("q", "detach", "Detach"),
        ("question_mark", "help", "Help"),
        Binding("d", "shade", "Dark or light", show=False),
    ]
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (80, "-normal"), (120, "-wide")]  # noqa: RUF012 - textual's own

    def __init__(self, opened: Callable[[], Opened], run: str | None = None) -> None:
        super().__init__()
        self._opened = opened
        self._run = run
        self._stack = AsyncExitStack()
        self.access: Access | None = None

    async def on_mount(self) -> None:
        self.access = await self._stack.enter_async_context(self._opened())
        await self.push_screen(RunsScreen(self.access))
        if self._run is not None:
            view = await find(self.access, self._run)
            await self.push_screen(RunScreen(self.access, view.id))

    async def on_unmount(self) -> None:
        await self._stack.aclose()

    def action_detach(self) -> None:
        self.exit()

    def action_shade(self) -> None:
        """Dark, or light; what stands there is written anew."""
        self.theme = "textual-light" if self.current_theme.dark else "textual-dark"
        for screen in self.screen_stack:
            if isinstance(screen, RunScreen | RunsScreen):
                screen.repaint()

    def action_help(self) -> None:
        _ = self.push_screen(TextDialog("keys", HELP))
