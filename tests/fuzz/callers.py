"""Every kind of caller: nobody, somebody with a wrong token, each right alone, some confined, everything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import httpx2
from tests.attacks.thieves import token
from tests.server.serving import LONG, Server

from standfast.rights import RIGHTS


@dataclass(frozen=True)
class Caller:
    """Who asks, and what they must never see again in a log or an answer."""

    name: str
    secret: str
    http: httpx2.Client

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.secret}"} if self.secret else {}


@contextmanager
def callers(server: Server, run: str) -> Iterator[list[Caller]]:
    """All of them; `run` is the one that the confined ones are confined to."""
    secrets = {"nobody": "", "somebody": "sf_" + "wrong0123456789-and-nobodys-0123456789abcdef"}
    secrets |= {right: token(server, right).secret for right in RIGHTS}
    secrets["guest"] = token(server, "view", run=run).secret
    secrets["team"] = token(server, *RIGHTS, labels={"team": "fuzz"}).secret
    secrets["ended"] = _ended(server)
    secrets["admin"] = server.token
    with ExitStack() as stack:
        yield [Caller(name, secret, stack.enter_context(_client(server, secret))) for name, secret in secrets.items()]


def _client(server: Server, secret: str) -> httpx2.Client:
    headers = {"Authorization": f"Bearer {secret}"} if secret else {}
    return httpx2.Client(base_url=server.url, headers=headers, timeout=LONG)


def _ended(server: Server) -> str:
    """A token that was taken back."""
    one = token(server, "view", "operator")
    server.http.delete(f"/api/tokens/{one.id}")
    return one.secret
