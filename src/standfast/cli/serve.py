"""`standfast serve`: the control surface over HTTP, with workers that drive."""

from standfast.server.command import serve

__all__ = ["serve"]
