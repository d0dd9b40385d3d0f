"""By which way somebody came: a text that anybody may give, and what a server was shown, which nobody can give."""

from __future__ import annotations


class ByToken(str):
    """The way of somebody who has shown a server a token that counts; its guard makes it (R31, R32).

    It goes where the way goes, so that no verb can be asked for with another token than the one that was shown.
    """

    __slots__ = ("token",)

    def __new__(cls, way: str, token: str) -> ByToken:
        made = super().__new__(cls, way)
        made.token = token
        return made

    token: str


def way_back(route: str, by_token: str) -> str:
    """The same way again, from a row that has kept it for something that is done later."""
    return ByToken(route, by_token) if by_token else route


def token_of(way: str) -> str:
    """What was shown: the id of a token, or `server` for the server's own; empty if nothing was."""
    return way.token if isinstance(way, ByToken) else ""
