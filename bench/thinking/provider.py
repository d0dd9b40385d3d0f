"""A provider in a process of its own, the same for every loop: what it does is in the name of the model.

`turns-50` asks for the tool `look` until it has seen 50 results; `stream-2000` says 2,000 tokens as fast as it can;
`drip` says a token every 5 ms. Prints its address; ends with its stdin. A line on stdin is answered with the
monotonic times at which requests came, as JSON.
"""

from __future__ import annotations

import json
import sys

from tests.providers.scenes import Answer, drips, says, use, uses
from tests.providers.server import Exchange, LoopbackProvider


def choose(exchange: Exchange) -> Answer:
    name, _, count = str(exchange.body["model"]).partition("-")
    if name == "stream":
        return says(*["token "] * int(count))
    if name == "drip":
        return drips()
    seen = sum(message["role"] == "tool" for message in exchange.body["messages"])
    return says("done") if seen >= int(count) else uses(use("look", {"n": seen}), before="Let me look. ")


def main() -> None:
    with LoopbackProvider(choose) as server:
        print(server.openai_url, flush=True)
        for _ in sys.stdin:
            print(json.dumps([exchange.at for exchange in server.exchanges]), flush=True)


if __name__ == "__main__":
    main()
