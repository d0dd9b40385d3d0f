"""The guards of evidence: of bundles, of what is told of clients, and of a run's last step, each taken away."""

from __future__ import annotations

from tests.mutants.mutants import Mutant

BUNDLE, CHECK, TELLING = "evidence/bundle.py", "evidence/bundle_check.py", "server/telling.py"

EVIDENCE_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "a bundle tells who looked into the runs of others",
        BUNDLE,
        ' if getattr(event, "run", None) in ids]',
        "]",
        "custody_is_of_this_run_alone",
    ),
    Mutant(
        "instructions are sealed that the run did not have",
        BUNDLE,
        'if fingerprint(text) != contract["instructions"]:',
        "if False:",
        "only_what_the_run_had_is_sealed",
    ),
    Mutant(
        "a record is exported that was not signed for",
        BUNDLE,
        "if chain.head.hex() != named.head:",
        "if False:",
        "what_is_exported_was_signed_for",
    ),
    Mutant(
        "a checkpoint of any key will do",
        CHECK,
        "    if keys and key not in keys:\n",
        "    if False:\n",
        "a_checkpoint_is_of_the_trusted_key",
    ),
    Mutant(
        "checkpoints may stand in any order", CHECK, "if n <= previous[0]:", "if False:", "checkpoints_are_in_order"
    ),
    Mutant(
        "a checkpoint need not follow the one before it",
        CHECK,
        "elif n == previous[0] + 1 and said.previous != previous[1]:",
        "elif False:",
        "a_checkpoint_follows_the_one_before_it",
    ),
    Mutant(
        "a row is hidden as if it had been deleted",
        CHECK,
        "if chain.gone and chain.gone != chain.rows:",
        "if False:",
        "no_row_is_hidden",
    ),
    Mutant(
        "a run is hidden as if it had been deleted",
        CHECK,
        "if one.forgotten != bool(chain.gone):",
        "if False:",
        "no_run_is_hidden",
    ),
    Mutant(
        "a stop is told of twice",
        TELLING,
        " if (event.server, event.stop) not in known]",
        "]",
        "a_stop_is_told_of_once",
    ),
    Mutant(
        "who left in the midst of it is forgotten",
        TELLING,
        "            known.gone.append(client)\n",
        "",
        "who_left_is_told_of",
    ),
    Mutant(
        "a run is not followed for those who left",
        "server/feeds.py",
        " and not self.tellings.lingers(tail.run):",
        ":",
        "a_run_is_followed_for_those_who_left",
    ),
    Mutant(
        "who left before the step began is told of",
        TELLING,
        "if not known.telling:  # who left",
        "if False:  # who left",
        "who_left_before_has_nothing_of_it",
    ),
    Mutant(
        "a person's call is accepted while the locks are released",
        "control.py",
        '"take_over", "perform", "step_once")',
        '"take_over", "step_once")',
        "nobody_acts_after_the_last_step",
    ),
    Mutant(
        "a run that has taken its last step is redirected",
        "control.py",
        '("redirect", "message",',
        '("message",',
        "nothing_leads_back_from_the_last_step",
    ),
    Mutant(
        "after a crash the last step is forgotten",
        "driver.py",
        's.row.status == "running" and s.row.doc.ending is not None',
        "False",
        "the_last_step_outlives_a_crash",
    ),
)
