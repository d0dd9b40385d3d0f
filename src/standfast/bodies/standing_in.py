"""A function of ours in the place of somebody else's, while a runtime is open."""

from __future__ import annotations

from typing import Any, cast

_ABSENT = object()


class StandIn:
    """Stands in the place of an attribute until it is removed.

    A tracer may wrap it in turn. Then it cannot be taken out without the tracer: it stays where it is, and does
    nothing but pass on, also when a runtime that is opened later puts another on top of both.
    """

    def __init__(self, holder: Any, name: str) -> None:
        self.active = False
        self._holder = holder
        self._name = name
        self._before: Any = _ABSENT
        self._ours: Any = None

    def put(self, ours: Any) -> None:
        """From now on the holder has this one; it must ask `active` each time."""
        self._before = self._own()
        self._ours = ours
        setattr(self._holder, self._name, ours)
        self.active = True

    def remove(self) -> None:
        """All is as before, but for what others have changed meanwhile."""
        self.active = False
        if self._own() is not self._ours:
            return
        if self._before is _ABSENT:
            delattr(self._holder, self._name)
        else:
            setattr(self._holder, self._name, self._before)

    def _own(self) -> Any:
        """What the holder itself has by this name, not what it inherits."""
        return cast("dict[str, Any]", vars(self._holder)).get(self._name, _ABSENT)
