"""What a run's own code may make grow: at each limit, beyond it, and what becomes of the run there (R34)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from tests.helpers import held

from standfast import (
    CallFailed,
    Done,
    Handle,
    Log,
    NotStorable,
    Run,
    Runtime,
    agent,
    arguments,
    progress,
    say,
    tool,
    voice,
)
from standfast import events as ev
from standfast import run as run_module
from standfast.arguments import LONGEST_MESSAGE, LONGEST_TRACEBACK, middle_left_out
from standfast.codec import Codec
from standfast.json_values import LARGEST_VALUE
from standfast.records import Effect
from standfast.redaction import Redactor
from standfast.rows import ErrorInfo
from standfast.testing import lab
from standfast.voice import LEFT_OUT


class Sized(BaseModel):
    """How much is made of what, in the second step."""

    what: str
    size: int
    text: str = ""
    log: Log[str] = Log()
    good: bool = False


@tool(effect="read")
async def gives(size: int) -> str:
    return "x" * size


@tool(effect="write")
async def fails(size: int) -> None:
    raise RuntimeError("begins " + "x" * size + " ends")


@tool(effect="write")
async def talks(size: int, pieces: int) -> str:
    for _ in range(pieces):
        say("x" * size)
    return "performed"


@tool(effect="read")
async def goes_on(times: int, at_once: int) -> None:
    for n in range(times):
        for m in range(at_once):
            progress(n / times, f"{n}.{m}")
        await asyncio.sleep(0)


@agent("makes")
async def makes(run: Run[Sized]) -> Done[str] | None:
    """A good step, then one with as much as it was told to make."""
    s = run.state
    if not s.good:
        s.good = True
        return None
    text = "x" * s.size
    match s.what:
        case "state":
            s.text, s.what, s.size = text, "note", 1
            return None
        case "result":
            await run.call(gives(s.size))
        case "row":
            s.log.append(text)
        case "note":
            run.note(text)
        case "event":
            run.emit("it", text)
        case "reply":
            run.reply(text)
        case "notes":
            for _ in range(s.size):
                run.note("x")
        case "error":
            raise RuntimeError("begins " + text + " ends")
        case "failing":
            await run.call(fails(s.size))
        case "done":
            return Done(text)
        case _:
            raise AssertionError(s.what)
    return Done("fits")


async def _started(runs: Runtime, what: str, size: int) -> Handle[Any]:
    return await runs.start(makes, Sized(what=what, size=size), id="r")


# JSON of a text has two quotation marks; of a state, its other fields.
VALUES = [("result", 2), ("row", 2), ("done", 2), ("state", 200)]


@pytest.mark.parametrize(("what", "around"), VALUES)
@pytest.mark.parametrize("more", [0, 1])
async def test_a_value_is_so_large_and_no_larger_and_the_run_keeps_its_last_snapshot(
    tmp_path: Path, what: str, around: int, more: int
) -> None:
    size = LARGEST_VALUE - around + more * around
    async with Runtime(tmp_path / "runs.db", [makes]) as runs:
        run = await _started(runs, what, size)
        if not more:
            await run.result(timeout=120)
            return
        view = await held(run, "error")
        assert view.step == 1 and f"{LARGEST_VALUE:,} is the most" in view.error
        assert view.error.startswith("CallFailed" if what == "result" else "NotStorable")
        assert "file" in view.waiting_for, "and what to do"
        kept = await run.state()
        assert (kept.good, kept.text, len(kept.log)) == (True, "", 0)
        await run.edit({"size": 10})
        await run.resume()
        await run.result(timeout=120)


@pytest.mark.parametrize("effect", ["read", "idempotent", "write", "irreversible"])
@pytest.mark.parametrize("listed", [False, True])
async def test_a_number_that_nobody_could_read_again_fails_the_call_whatever_its_effect(
    effect: Effect, listed: bool
) -> None:
    """A result that cannot be stored: the step gets CallFailed, as for anything else a tool does wrong."""

    @tool(effect=effect, confirm=False)
    async def counts() -> int:
        return 10**5000

    @tool(effect=effect, confirm=False)
    async def lists() -> list[int]:
        return [10**5000]

    @agent("counter", tools=[counts, lists])
    async def counter(run: Run[Sized]) -> Done[str]:
        try:
            await run.call(lists() if listed else counts())
        except CallFailed as failed:
            return Done(f"{failed.type}: {failed.message}")
        return Done("read again")

    async with lab([counter]) as runs:
        run = await runs.start(counter, Sized(what="", size=0))
        assert (await run.result(timeout=120)).startswith("NotStorable: the result of ")


def test_a_value_that_is_too_large_names_the_field() -> None:
    class Both(BaseModel):
        small: str = "x"
        large: str = "x" * LARGEST_VALUE

    with pytest.raises(NotStorable, match="at large") as found:
        Codec(Both).dump(Both())
    assert found.value.path == "large"


@pytest.mark.parametrize(("what", "most"), [("note", 500), ("reply", 500), ("event", 500 - 4), ("notes", 20)])
@pytest.mark.parametrize("more", [0, 1])
async def test_a_note_is_so_long_and_no_longer_and_the_run_keeps_its_last_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, most: int, more: int
) -> None:
    monkeypatch.setattr(run_module, "LONGEST_NOTE", 500)
    monkeypatch.setattr(run_module, "MOST_NOTES", 20)
    async with Runtime(tmp_path / "runs.db", [makes]) as runs:
        run = await _started(runs, what, most + more)
        if not more:
            assert await run.result(timeout=120) == "fits"
            return
        view = await held(run, "error")
        assert view.step == 1 and "NotStorable" in view.error and "a resume takes it again" in view.waiting_for
        assert (await run.state()).good
        await run.edit({"size": 1})
        await run.resume()
        assert await run.result(timeout=120) == "fits"


@pytest.mark.parametrize("more", [0, 1])
async def test_what_a_tool_says_is_kept_up_to_its_limit_and_the_call_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    monkeypatch.setattr(voice, "MOST_SAID", 10_000)

    @agent("speaks")
    async def speaks(run: Run[Sized]) -> Done[str]:
        return Done(await run.call(talks(run.state.size, 4)))

    async with Runtime(tmp_path / "runs.db", [speaks]) as runs:
        run = await runs.start(speaks, Sized(what="", size=2_500 + more))
        assert await run.result(timeout=120) == "performed"
        (said,) = await run.transcript()
        assert said.text == "x" * 10_000 + (LEFT_OUT if more else "")


@pytest.mark.parametrize(("times", "at_once", "told"), [(1, 50, 1), (9, 3, 9), (10, 3, 10), (11, 3, 10)])
async def test_progress_is_the_newest_of_a_commit_and_so_many_events_of_a_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int, at_once: int, told: int
) -> None:
    monkeypatch.setattr(voice, "MOST_PROGRESS", 10)

    @agent("goes")
    async def goes(run: Run[Sized]) -> Done[str]:
        await run.call(goes_on(times, at_once))
        return Done("went")

    async with Runtime(tmp_path / "runs.db", [goes]) as runs:
        run = await runs.start(goes, Sized(what="", size=0))
        assert await run.result(timeout=120) == "went"
        events = [event async for event in run.events() if isinstance(event, ev.CallProgress)]
        assert 1 <= len(events) <= told
        last = f"{times - 1}.{at_once - 1}"
        assert all(event.text.endswith(f".{at_once - 1}") for event in events), "the newest of those before it"
        if times <= 10:
            assert events[-1].text == last


@pytest.mark.parametrize("what", ["error", "failing"])
@pytest.mark.parametrize("size", [10, 3_000_000])
async def test_of_a_long_error_the_beginning_and_the_end_are_kept(tmp_path: Path, what: str, size: int) -> None:
    async with Runtime(tmp_path / "runs.db", [makes]) as runs:
        run = await _started(runs, what, size)
        view = await held(run, "error")
        assert "begins x" in view.error and "x ends" in view.error
        assert ("characters left out]" in view.error) == (size > LONGEST_MESSAGE)
        assert len(view.error) < LONGEST_MESSAGE + 100 and len(view.traceback) <= LONGEST_TRACEBACK
        assert view.traceback.startswith("Traceback") or what == "failing"
        assert (await run.state()).good
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 2_000_000


class Counting(Redactor):
    """Counts the characters that it has searched."""

    searched = 0

    def text(self, text: str) -> str:
        self.searched += len(text)
        return super().text(text)


def test_of_a_huge_error_only_the_ends_are_searched_for_secrets() -> None:
    """R34: nobody waits for what nobody will read."""
    redactor = Counting()
    kept = ErrorInfo("E", "x" * 20_000_000, "y" * 20_000_000).as_kept(redactor)
    assert redactor.searched < 500_000
    assert len(kept.message) <= LONGEST_MESSAGE and len(kept.traceback) <= LONGEST_TRACEBACK
    count = int(kept.message.partition("[")[2].partition(" ")[0])
    assert count == 20_000_000 - kept.message.count("x")


@pytest.mark.parametrize("at", range(5_000, 60_000, 977))
@pytest.mark.parametrize("filler", ["word ", f"sk-{'a' * 2000} "], ids=["words", "secrets that become short"])
def test_no_half_of_a_secret_is_kept_of_a_huge_error(at: int, filler: str) -> None:
    """Wherever a cut falls: neither the beginning of a secret nor the end of one is kept."""
    secret = "sk-" + "SECRET" * 200
    side = (filler * (at // len(filler)))[:at]
    middle = "word " * 40_000
    kept = ErrorInfo("E", f"{side} {secret} {middle} {secret} {side}", "").as_kept(Redactor())
    assert "SECRET" not in kept.message and "a" * 20 not in kept.message


@pytest.mark.parametrize("length", [LONGEST_MESSAGE - 1, LONGEST_MESSAGE, LONGEST_MESSAGE + 1, 50 * LONGEST_MESSAGE])
def test_what_an_error_says_is_cut_in_the_middle_between_two_words(length: int) -> None:
    text = ("sk-secret-that-is-one-word " * (length // 27 + 1))[:length]
    kept = middle_left_out(text, LONGEST_MESSAGE)
    assert len(kept) <= LONGEST_MESSAGE
    if length <= LONGEST_MESSAGE:
        assert kept == text
        return
    before, _, rest = kept.partition("… [")
    count, _, after = rest.partition(" characters left out] …")
    assert text.startswith(before) and text.endswith(after)
    assert int(count) == length - len(before) - len(after)
    assert before.endswith(" ") and after.startswith(" "), "no word is cut in half"
    assert arguments.middle_left_out(kept, LONGEST_MESSAGE) == kept
