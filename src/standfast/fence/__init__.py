"""The transport fence: HTTP clients whose requests are tied to the run that sends them (R7).

The second line of defence, for people's own loops and for frameworks that know nothing of standfast. A request
inside a call belongs to the call; outside one it is admitted through the gate as a call of its own; without a
run it is refused. After a stop nothing new is sent, and what is under way is closed.
"""

from standfast.errors import RequestCut, RequestRefused
from standfast.fence.clients import anthropic, http_client, openai, sync_http_client

__all__ = ["RequestCut", "RequestRefused", "anthropic", "http_client", "openai", "sync_http_client"]
