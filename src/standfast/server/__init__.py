"""The control surface over HTTP: `control_app` for your own app, `standfast serve` for one of its own."""

from typing import TYPE_CHECKING, Final

from standfast.lazily import attributes

if TYPE_CHECKING:
    from standfast.server.actors import Actor, may
    from standfast.server.app import control_app
    from standfast.server.guard import Rules
    from standfast.server.keys import Keys

__all__ = ["Actor", "Keys", "Rules", "control_app", "may"]

# What a checker reads above, by the module that has it: workers live in this package too, and need none of it.
_NAMES: Final = {"actors": "Actor may", "app": "control_app", "guard": "Rules", "keys": "Keys"}

if not TYPE_CHECKING:  # a checker would take every name for one of ours
    __getattr__, __dir__ = attributes(globals(), _NAMES)
