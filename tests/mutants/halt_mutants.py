"""The guards of the operator's halt, each taken away by a small change of the source (R13)."""

from __future__ import annotations

from tests.mutants.mutants import Mutant

CLAIM = "        if halted := halt_run(row, holding(tx, row), tx.now):\n"

HALT_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "a halt does not say with which token it was asked for",
        "verbs/halting.py",
        "route=str(route), by_token=token_of(route))",
        "route=str(route))",
        caught_by="what_is_done_later_keeps_its_token",
    ),
    Mutant(
        "a resume that waited for a lift has lost its token",
        "resuming.py",
        "        by_token=ask.by_token,\n",
        "",
        caught_by="what_is_done_later_keeps_its_token",
    ),
    Mutant("a claim ignores halts", "claiming.py", CLAIM, "        if False:\n", "a_halted_run_is_not_claimed"),
    Mutant(
        "a takeover ignores halts",
        "claiming.py",
        'halt_run(row, holding(tx, row), tx.now) if row.status == "running" else []',
        "[]",
        "a_halted_run_is_not_taken_over_to_be_driven",
    ),
    Mutant(
        "a start ignores halts",
        "starting.py",
        '    refuse_start(tx, name, ask["labels"] or {})\n',
        "",
        "a_halted_agent_is_not_started",
    ),
    Mutant(
        "a fork ignores halts",
        "forking.py",
        "    refuse_start(tx, source.agent, source.doc.labels)\n",
        "",
        "a_halted_agent_is_not_started",
    ),
    Mutant(
        "a child of a halted agent begins",
        "starting.py",
        "        events += halt_run(row, holding(tx, row), tx.now)\n",
        "        events += []\n",
        "a_child_of_a_halted_agent_waits",
        also=(("claiming.py", CLAIM, "        if False:\n"),),
    ),
    Mutant(
        "a halt does not reach children",
        "stores/sql/queries.sql",
        "JOIN hit ON runs.parent = hit.id",
        "JOIN hit ON 0",
        hint=125,
    ),
    Mutant(
        "a halt leaves running runs alone",
        "halts.py",
        'if row.status in ("queued", "running"):',
        'if row.status == "queued":',
        hint=21,
    ),
    Mutant(
        "a halt names nothing of runs that are being cancelled",
        "verbs/halting.py",
        "    named = run.named_in_flight\n",
        "    named = list[CallRef]()\n",
        hint=6237,
    ),
    Mutant("the first lift frees a run that two halts hold", "halts.py", "    if left:\n", "    if False:\n", hint=21),
    Mutant(
        "a resume waves a halt through",
        "machine.py",
        'cleared = RESUME_CLEARS | {"waiting"}',
        'cleared = RESUME_CLEARS | {"waiting", "halted"}',
        hint=65,
    ),
    Mutant(
        "live text is given with gaps",
        "said_texts.py",
        "if delta.offset == 0 or delta.offset <= ends.live or delta.offset <= ends.flushed < end:",
        "if True:",
        "live_text_has_no_gaps",
    ),
    Mutant(
        "what somebody says is checked while others wait for the store",
        "outside.py",
        "            raise Unfinished(lambda: self._learn(key, work))\n",
        "            self._learn(key, work)\n            outcome = self._known[key]\n",
        "a_stop_goes_through_while_an_answer_is_checked",
    ),
    Mutant(
        "a forgotten run is deleted in one transaction",
        "stores/sqlite_evidence.py",
        "return self._rows <= 0 or self._bytes <= 0 or time.monotonic() >= self._end",
        "return False",
        "forgetting_takes_short_transactions",
    ),
    Mutant(
        "a resume from before the halt is forgotten",
        "settling.py",
        "        row.doc.resume_noted = noted\n        return []\n",
        "        return []\n",
        "a_noted_resume_outlives_a_halt",
    ),
    Mutant(
        "a rewind that a halt overtakes goes on by itself",
        "stops.py",
        'not set(row.doc.holds) - {"halted"}:',
        "not row.doc.holds:",
        "a_rewind_ends_as_it_would_without_the_halt",
    ),
    Mutant(
        "a halt that cannot be read holds nothing",
        "halts.py",
        'HaltDoc(id=row.id, all=True, reason="this halt cannot be read, so it holds every run")',
        'HaltDoc(id=row.id, agent="", reason="unreadable")',
        "an_unreadable_halt_holds_everything",
    ),
)
