import asyncio
from pydantic import BaseModel
from standfast import Accepted, Done, Performed, Run, Runtime, agent, idempotency_key, tool

class Loop(BaseModel):
    sent: int = 0

async def discard(p: Performed[str, None]) -> None:
    print("discard", p.key)

@tool(undo=discard, settles="run")
async def draft(n: int) -> str:
    await asyncio.sleep(0.05)
    return f"draft {n} {idempotency_key()}"

@agent("drafter")
async def drafter(run: Run[Loop]) -> Done[str] | None:
    await run.call(draft(run.state.sent))
    run.state.sent += 1
    return Done("all sent") if run.state.sent == 1000 else None

async def main() -> None:
    async with Runtime("runs.db", agents=[drafter]) as runs:
        run = await runs.start(drafter, Loop())
        await asyncio.sleep(0.5)
        assert isinstance(await run.cancel(by="user-17", reason="enough"), Accepted)
        receipt = await run.settled()
        print(receipt.finished_steps, [u.outcome for u in receipt.undone], receipt.calls_after_cancel)

asyncio.run(main())
