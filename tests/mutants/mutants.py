"""Our own guards, each taken away by a small change of the source.

`caught_by` is "races" or "frames" (seeds of tests/races or tests/frames, `hint` first) or the name of a scenario in
guards.py or evidence_guards.py.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    file: str
    old: str
    new: str
    caught_by: str = "races"
    hint: int = 0
    also: tuple[tuple[str, str, str], ...] = ()  # a second guard of the same promise: file, old, new


MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "a stale driver may write",
        "commit.py",
        "        if fresh.fence != session.fence:\n            raise Fenced",
        "        if False:\n            raise Fenced",
        hint=77,
    ),
    Mutant(
        "a call of an earlier attempt is admitted",
        "commit.py",
        'status == "running" and attempt == a.attempt and not a.scope.closed',
        'status == "running"',
        hint=258,
    ),
    Mutant(
        "calls are admitted while pausing or cancelling",
        "commit.py",
        'status == "running" and attempt == a.attempt',
        "attempt == a.attempt",
        hint=125,
    ),
    Mutant(
        "a refused call goes on",
        "gate.py",
        "        if not admission.admitted:\n            await park()",
        "        if False:\n            await park()",
        hint=258,
    ),
    Mutant(
        "the journal is not looked at",
        "gate.py",
        'if known is not None and (known.status == "finished" or known.error is not None):',
        "if False and known is not None:",
        hint=5,
    ),
    Mutant("keys outlive a rewind", "journal.py", 'f"{run}\\0{epoch}\\0{step}\\0"', 'f"{run}\\0{step}\\0"', hint=14),
    Mutant(
        "a call of a dead driver is issued again without asking",
        "stops.py",
        'call.status, call.left_by = "in_doubt", row.holder',
        'call.status = "not_begun"',
        hint=82,
    ),
    Mutant(
        "programs go on without their driver",
        "bodies/guard_main.py",
        "        end_carriers(calls.__contains__)\n",
        "        pass\n",
        caught_by="programs_end_with_their_driver",
    ),
    Mutant(
        "a takeover does not look for programs",
        "driver.py",
        "await _end_remains(env, run_id) if held else set[str]()",
        "set[str]()",
        caught_by="a_takeover_ends_what_a_dead_driver_left_running",
    ),
    Mutant(
        "a takeover does not raise the fence",
        "claiming.py",
        "    row.fence += 1\n",
        '    row.fence += row.status == "queued"\n',
        hint=115,
    ),
    Mutant(
        "runs are taken from drivers that live",
        "claiming.py",
        "if before is not None and not mine and not others.gone(tx, before):",
        "if False:",
        also=(("drivers/local.py", " and not self._gone(holder):", " and False:"),),
        caught_by="a_live_driver_keeps_its_run",
    ),
    Mutant(
        "undo goes forward", "stops.py", "sorted(rows, key=lambda c: -c.n)", "sorted(rows, key=lambda c: c.n)", hint=35
    ),
    Mutant(
        "locks are not undone",
        "stops.py",
        'call.settles == "never" or undo == "all"',
        'undo == "all"',
        hint=46,
    ),
    Mutant(
        "a boundary consumes mail it has not read",
        "commit.py",
        "            if mail.id in read:\n",
        "            if True:\n",
        hint=15,
    ),
    Mutant(
        "mail is not given back by a cancel",
        "verbs/cancelling.py",
        '        *return_mail(tx, row, "cancelled"),\n',
        "",
        hint=46,
    ),
    Mutant(
        "a boundary is taken although the step was set back",
        "commit.py",
        "going and row.step == self.step and row.attempt == self.attempt and row.doc.target is None",
        "going",
        hint=72,
    ),
    Mutant(
        "done beats an accepted cancel",
        "commit.py",
        'going = row.status in ("running", "pausing") or soft',
        'going = row.status in ("running", "pausing", "cancelling")',
        also=(
            (
                "endings.py",
                '        if row.status == "cancelling":\n            assert',
                "        if False:\n            assert",
            ),
            # the table would refuse it too: a second guard that must not hide the first one's loss
            (
                "stops.py",
                "    assert may_follow(row.status, status)",
                "    assert True or may_follow(row.status, status)",
            ),
        ),
        caught_by="an_accepted_cancel_is_never_beaten_by_done",
    ),
    Mutant(
        "a cancel is settled while children live",
        "endings.py",
        "if tx.children(row.id, live=True) or pending_undos(tx, row):\n                return False",
        "if False:\n                return False",
        also=(
            (
                "endings.py",
                "            await self._children_end()\n            left = await",
                "            left = await",
            ),
        ),
        hint=240,
    ),
    Mutant(
        "a request id is ignored",
        "control.py",
        "    if ask.request_id is not None:\n        known = tx.answered(ask.request_id)\n"
        "        if known is not None:",
        "    if ask.request_id is not None:\n        known = None\n        if known is not None:",
        hint=7,
    ),
    Mutant(
        "a silent process begins bodies",
        "gate.py",
        "if (not lease.fresh or lease.lapses != lapses) and not await s.still_mine():",
        "if False:",
        caught_by="a_frozen_process_begins_nothing_that_was_taken_from_it",
    ),
    Mutant(
        "a probe's word counts while the driver may live",
        "session.py",
        "return holder is not None and",
        "return False and",
        caught_by="a_probe_is_not_believed_while_the_body_may_run",
    ),
    Mutant(
        "an undo counts while another process may be at the call",
        "undo.py",
        'if row.status != "finished" and await self._s.may_still_happen(row):',
        "if False:",
        hint=84269,
    ),
    Mutant(
        "a probe that says anything is taken to say no",
        "performed.py",
        "if not isinstance(answer, Happened):",
        "if False:",
        caught_by="a_probe_must_say_it_plainly",
        also=(("performed.py", "tool.dump_result(answer.result)", "pass"),),
    ),
    Mutant(
        "a cancel forgets what a pause left running",
        "stops.py",
        "residue += _left_before(tx, row, residue)",
        "pass",
        caught_by="a_later_receipt_names_what_was_left_running",
    ),
    Mutant(
        "what a tool awaited was cancelled, so the step is",
        "performing.py",
        "flight.task.cancelling() > 0",
        "flight.task.cancelling() >= 0",
        caught_by="a_read_that_awaits_something_cancelled_fails_alone",
    ),
    Mutant(
        "a probe's word beats a late result",
        "preparing.py",
        'if now is None or now.undo is not None or now.status not in ("in_doubt", "check"):',
        "if now is None:",
        caught_by="a_late_result_stands_against_a_probe_that_does_not_know",
    ),
    Mutant(
        "a step that swallows its cancellation counts",
        "stepping.py",
        "            if scope.broken:\n                return",
        "            if False:\n                return",
        hint=186,
    ),
    Mutant(
        "an answered question holds the run",
        "supervising.py",
        'if row.status == "running" and not _settled(tx, row, name):',
        'if row.status == "running":',
        hint=1262,
    ),
    Mutant(
        "a closed attempt is asked no more",
        "gate.py",
        "if scope.closed or run.number != scope.number or s.shut:",
        "if False:",
        also=(("commit.py", " and not a.scope.closed", ""),),
        hint=258,
    ),
    Mutant(
        "the record's rows are not chained",
        "stores/chain.py",
        "sha256(previous + _place.pack(",
        "sha256(_place.pack(",
        caught_by="a_record_cannot_be_changed_row_by_row",
    ),
    Mutant(
        "a step that changes its mind writes twice",
        "gate.py",
        "if id_ in s.journal.rows or s.row.doc.may_differ or not s.journal.unasked_writes():",
        "if True:",
        caught_by="a_changed_argument_does_not_send_twice",
    ),
    Mutant(
        "the budget is not looked at by the gate",
        "gate.py",
        "        over = self._over_budget(call)\n",
        "        over = None\n",
        caught_by="a_budget_of_calls_holds",
    ),
    Mutant(
        "a write's result is used before it is durable",
        "gate.py",
        "                await commit.wait()\n            except Exception:",
        "                pass\n            except Exception:",
        caught_by="a_write_is_durable_before_its_result_is_used",
    ),
    Mutant(
        "a tripped stream is read to its end",
        "tripping.py",
        "    flight.spoiled = True\n    flight.cut()\n",
        "    return\n",
        caught_by="a_trip_ends_the_call",
    ),
    Mutant(
        "a growing match is not held back",
        "tripwire/scanning.py",
        "if self._holds and self._span is None and self._hold_at < 0:",
        "if False:",
        caught_by="a_trip_ends_the_call",
    ),
    Mutant(
        "a person's word does not let a call pass",
        "resuming.py",
        'doc.tripwire_ok.append(str(doc.holds["tripwire"].data))',
        "pass",
        caught_by="a_resume_lets_a_tripped_call_pass",
    ),
)
