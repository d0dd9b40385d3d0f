"""The control surface over HTTP: `control_app` for your own app, `standfast serve` for one of its own."""

from standfast.server.actors import Actor, may
from standfast.server.app import control_app
from standfast.server.guard import Rules
from standfast.server.keys import Keys

__all__ = ["Actor", "Keys", "Rules", "control_app", "may"]
