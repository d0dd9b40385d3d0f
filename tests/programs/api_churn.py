import asyncio
from pathlib import Path
from pydantic import BaseModel
from standfast import Performed, Pipeline, Run, Runtime, tool

class Churn(BaseModel):
    month: str
    customers: list[str] = []

async def old_text(path: str, text: str) -> str:
    return Path(path).read_text() if Path(path).exists() else ""

async def put_back(p: Performed[None, str]) -> None:
    Path(p.args["path"]).write_text(p.before)

@tool(effect="read")
async def customers(month: str) -> list[str]:
    return ["Acme", "Globex"]

@tool(before=old_text, undo=put_back)
async def write_file(path: str, text: str) -> None:
    Path(path).write_text(text)

churn = Pipeline("churn", Churn)

@churn.stage("Fetch customer list")
async def fetch(run: Run[Churn]) -> None:
    run.state.customers = await run.call(customers(run.state.month))

@churn.stage("Write summary memo")
async def write(run: Run[Churn]) -> None:
    await run.call(write_file("memo.txt", f"{run.instruction}: {', '.join(run.state.customers)}"))

async def main() -> None:
    async with Runtime("runs.db", agents=[churn]) as runs:
        run = await runs.start(churn, Churn(month="May"))
        print((await run.result()).customers, Path("memo.txt").read_text())   # a pipeline's result is its final state

asyncio.run(main())
