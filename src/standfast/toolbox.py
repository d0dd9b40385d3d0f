"""Tools that live elsewhere (on a server, say) and may change while the program runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from standfast.tools import Tool


class Toolbox(ABC):
    """Where tools were found at run time. A step that names it can reach all of them."""

    revision: int = 0  # rises whenever one of its tools has changed, is new or is gone

    @property
    @abstractmethod
    def tools(self) -> Sequence[Tool[..., Any]]:
        """The tools, as they are now; Misuse if they are not known yet."""

    @abstractmethod
    async def refresh(self) -> None:
        """Look at the tools again: a run is about to be taken up, and is held as stale if they have changed.

        What this raises holds the run as an error does.
        """
