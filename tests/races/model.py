"""What a program of operations should have computed, in plain Python."""

from __future__ import annotations

from itertools import product

from tests.races.chaos import Story
from tests.races.zoo import Op


def expected(op: Op, story: Story) -> set[str]:
    """Every entry that this operation may leave in the trace."""
    if op.do == "par":
        return {f"par {op.n} {','.join(words)}" for words in product(*(_words(o, story) for o in op.many))}
    if op.do == "log":
        return {f"log {op.n} {n}" for n in range(1, 40)}
    if op.do == "sleep":
        return {f"sleep {op.n}"}
    if op.do == "ask":
        answer = story.answers.get(f"How much is {op.n}?")
        return {f"ask {op.n} {answer}"}
    if op.do == "child":
        soft = any(s.args["soft"] for s in story.accepted("cancel"))  # reaches the child; the step may still end
        halted = any(halted.halt.then == "cancel" for halted in story.halts)  # it may match the child alone
        cancelled = soft or halted or story.accepted("child cancel")
        return {f"child {op.n} {len(op.many)}", *([f"child {op.n} child cancelled"] if cancelled else [])}
    if op.do == "swallow":
        return {f"swallow {op.n} {op.n * 10} {op.n * 10}"}
    if op.do == "stray":
        return {f"stray {op.n} {op.n * 10}"}
    return {f"{op.do} {op.n} {word}" for word in _words(op, story)}


def _words(op: Op, story: Story) -> set[str]:
    value = str(op.n * 10)
    if op.do == "unwilling":
        return {"failed:NotPerformed"}
    if op.do == "broken":
        # A person who knows that its effect took place settles a doubt with its result.
        settled = {value} if story.accepted("resolve", "child resolve") else set[str]()
        return {"failed:RuntimeError", *settled}
    if op.do == "flaky":
        return {value, "failed:RuntimeError"}
    if op.do == "owned":
        return {value, "failed:CallTimedOut"}
    if op.do == "pay":
        return {value, "denied"} if story.accepted("deny", "child deny") else {value}
    return {value}
