"""A driver whose tools start programs: `deploying.py store folder tool [run]`. It drives until it is killed.

Programs write their pids into .pid files of the folder; what a deploy has done is a line in `deployed`.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from pydantic import BaseModel

from standfast import Done, Happened, NotHappened, Performed, Run, Runtime, agent, idempotency_key, run_process, tool

TREE = "(echo $BASHPID > {0}/b.pid; exec sleep 1000) & (setsid sh -c 'echo $$ > {0}/c.pid; exec sleep 1000') & wait"


async def was_deployed(p: Performed[str, None]) -> Happened | NotHappened:
    return Happened("probed") if Path(p.args["folder"], "deployed").exists() else NotHappened()


@tool(probe=was_deployed)
async def deploy(folder: str) -> str:
    """Takes effect after a while, unless it is killed."""
    number = len(list(Path(folder).glob("a*.pid")))
    script = f"echo $$ > {folder}/a{number}.pid; sleep 2; echo {idempotency_key()} >> {folder}/deployed"
    await run_process("sh", "-c", script)
    return "ok"


@tool(effect="read")
async def look(folder: str) -> str:
    await run_process("bash", "-c", f"echo $$ > {folder}/a.pid; {TREE.format(folder)}")
    return "seen"


@tool(effect="read", process=True)
def in_process(folder: str) -> str:
    subprocess.run(["bash", "-c", f"echo $$ > {folder}/a.pid; {TREE.format(folder)}"], check=True)
    return "seen"


@tool(effect="read")
async def serve(folder: str) -> str:
    """Leaves a program running, and ends."""
    await run_process("sh", "-c", f"sh -c 'echo $$ > {folder}/server.pid; exec sleep 1000' > {folder}/log 2>&1 &")
    return "serving"


@tool(effect="read")
async def rest(folder: str) -> None:
    Path(folder, "resting").touch()
    await asyncio.sleep(1000)


@tool(effect="read")
async def ended() -> str:
    """Its program leaves nothing behind."""
    await run_process("true")
    return "ended"


class Job(BaseModel):
    folder: str
    tool: str


@agent("deployer", tools=[deploy, look, in_process, serve, rest, ended])
async def deployer(run: Run[Job]) -> Done[str]:
    folder = run.state.folder
    if run.state.tool == "serve":
        await run.call(serve(folder))
        await run.call(rest(folder))
    if run.state.tool == "ended":
        await run.call(ended())
        await asyncio.sleep(0.2)  # the end of the call is written
        Path(folder, "resting").touch()
        await asyncio.sleep(1000)
    tools = {"deploy": deploy, "look": look, "in_process": in_process}
    return Done(await run.call(tools[run.state.tool](folder)))


async def main(store: str, folder: str, tool: str) -> None:
    async with Runtime(store, agents=[deployer]) as runs:
        await runs.start(deployer, Job(folder=folder, tool=tool), id="job")
        await asyncio.sleep(1000)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
