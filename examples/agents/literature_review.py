"""A literature synthesis of seven steps, with a question that arrives in the middle.

The synthesis is a thought on the stack. When a colleague's note turns up after the third step, and whenever you send a
message, it is put on hold, the question is answered in a thought of its own, and the run comes back aloud: "back to
synthesis of ...: at step 4 of 7".
"""

from __future__ import annotations

from examples.agents.thinking import thinker
from examples.agents.world import place, take_time
from pydantic import BaseModel

from standfast import Done, Performed, Run, agent, say, tool

STEPS = [
    "Search the catalogue",
    "Read the abstracts",
    "Group them by theme",
    "Compare the methods",
    "Weigh the evidence",
    "Outline the synthesis",
    "Write the synthesis",
]
NOTE_AFTER = 3  # steps: when the colleague's note is found
NOTE = "Which of these papers is the oldest?"
PAPERS = {
    "Stopping agents at step boundaries": 2021,
    "Compensating actions in long transactions": 1987,
    "Interruptibility and human oversight": 2016,
    "Structured concurrency revisited": 2018,
    "Durable execution for tool-using models": 2025,
}


class Review(BaseModel):
    """What it is about; the rest is found out."""

    topic: str = "interruptible agents"
    papers: list[str] = []
    notes: list[str] = []
    asked: bool = False  # has the colleague's note been read?
    text: str = ""


@tool(effect="read")
async def search(topic: str) -> list[str]:
    """What the catalogue has on a topic."""
    for title, year in PAPERS.items():
        await take_time(0.3)
        say(f"{title} ({year})\n")
    return list(PAPERS)


@tool(effect="read")
async def look_up(title: str) -> int:
    """The year of a paper."""
    await take_time(0.4)
    return PAPERS[title]


async def no_synthesis(p: Performed[str, None]) -> None:
    place(f"synthesis-{p.args['run']}.md").unlink(missing_ok=True)


@tool(effect="write", undo=no_synthesis, settles="run")
async def write_synthesis(run: str, text: str) -> str:
    """Write the synthesis down; taken back if the run is cancelled."""
    path = place(f"synthesis-{run}.md")
    await take_time(1.0)
    path.write_text(text)
    return str(path)


reader = thinker(
    "The themes are control, durability and oversight: who may stop a run, what survives the stop, and who is told.",
    "Methods differ. Some stop at boundaries only, some cut what is in flight, and only few undo its effects.",
    "The evidence for boundaries is good; for undoing effects it is thin, and mostly from databases.",
    "First the controls, then what must survive, then what people need to see. Each with its open questions.",
    "A run that people can stop at any moment needs three things: a place to stand still, a record of what has "
    "happened, and a way to take back what should not have. The literature has them, but rarely together.",
    most_tokens=120,
)


@agent("literature")
async def literature(run: Run[Review]) -> Done[str] | None:
    """A literature synthesis of seven steps; questions are answered in between."""
    await answer_questions(run)
    goal = f"synthesis of {run.state.topic}"
    if not run.plan.items:
        run.plan.set(STEPS)
    async with run.frame(goal, STEPS) as synthesis:
        at = synthesis.done
        item = run.plan[at]
        run.plan.start(item)
        synthesis.tokens = sum(len(note) for note in run.state.notes) // 4
        await take_step(run, at, run.instruction)
        run.plan.done(item)
        synthesis.advance(f"{run.plan[at].title}: done")
    return Done(run.state.text) if synthesis.status == "finished" else None


async def answer_questions(run: Run[Review]) -> None:
    """Messages first, one a step; and the colleague's note, when it is time."""
    for message in run.take_messages(limit=1):
        async with run.frame(f"answer {message.text!r}", message=message):
            run.reply(message, await answered(run))
    done = sum(item.status == "done" for item in run.plan)
    if done == NOTE_AFTER and not run.state.asked:
        run.state.asked = True
        async with run.frame(f"answer a colleague: {NOTE}"):
            run.reply(f"{NOTE} {await answered(run)}")


async def answered(run: Run[Review]) -> str:
    """The oldest paper so far: whatever is asked, it is looked up, not remembered."""
    years = {title: await run.call(look_up(title)) for title in run.state.papers}
    if not years:
        return "I have not read anything yet."
    oldest = min(years, key=lambda title: years[title])
    return f"The oldest of {len(years)} is {oldest!r}, of {years[oldest]}."


async def take_step(run: Run[Review], at: int, instruction: str) -> None:
    """Search and read; then think, step by step; write at the end. Redirected, each does what it is told instead."""
    if at == 0:
        run.state.papers = await run.call(search(run.state.topic if instruction == STEPS[0] else instruction))
        return
    if at == 1:
        named = [title for title in run.state.papers if title.lower() in instruction.lower()]
        for title in named or run.state.papers:
            await run.call(look_up(title))
        return
    so_far = "\n".join(run.state.notes) or "\n".join(run.state.papers)
    reply = await run.call(reader(f"{instruction} on {run.state.topic}. In two sentences. So far:\n{so_far[-1500:]}"))
    if at < len(STEPS) - 1:
        run.state.notes.append(reply.text.strip())
        return
    run.state.text = reply.text.strip()
    await run.call(write_synthesis(run.id, run.state.text))
