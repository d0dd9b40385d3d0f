"""Guards of what becomes of redirects, and of stages that a deploy has changed; see mutants.py."""

from __future__ import annotations

from tests.mutants.mutants import Mutant

REDIRECT_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "a child's unread redirect is not shown above it",
        "views.py",
        'unread = NOT_READ if child.doc.missed and child.status != "cancelling" else ""',
        'unread = ""',
        caught_by="what_is_unread_below_is_shown_above",
    ),
    Mutant(
        "a name that anybody could type counts as proved",
        "names.py",
        'return f"by {by}" if by_token else',
        'return f"by {by}" if True else',
        caught_by="a_typed_name_is_claimed",
    ),
    Mutant(
        "a step that left a redirect unread is not noticed",
        "commit.py",
        "        if row.doc.redirects:\n",
        "        if False:\n",
        caught_by="an_unread_redirect_is_noticed",
    ),
    Mutant(
        "what the step in progress has read is dropped all the same",
        "verbs/mailing.py",
        "    if mail_id in row.doc.read_now:\n",
        "    if False:\n",
        caught_by="what_was_read_is_not_dropped",
    ),
    Mutant(
        "a step keeps what was dropped before its reading was recorded",
        "commit.py",
        "        if self.heard:\n",
        "        if False:\n",
        caught_by="what_was_dropped_is_not_acted_on",
    ),
    Mutant(
        "another stage gets a redirect that was not meant for it",
        "unread.py",
        'return item is None or item.status in ("done", "dropped")',
        "return False",
        caught_by="no_other_stage_gets_it",
    ),
    Mutant(
        "a redirect of a stage that cannot read is taken",
        "redirectable.py",
        "if item is not None and not item.redirects else",
        "if False else",
        caught_by="what_cannot_be_read_is_refused",
    ),
    Mutant(
        "the stage after a removed one takes its step",
        "given_up.py",
        'if not any(item.id == running and item.status == "dropped" for item in plan):',
        "if True:",
        caught_by="a_removed_stage_ends_its_step",
    ),
    Mutant(
        "a new stage is taken before the one in progress",
        "stage_plan.py",
        'replace(item, status="running") if item.id == running else item',
        "item",
        caught_by="what_is_in_progress_is_ended_first",
    ),
    Mutant(
        "a held loop offers a redirect that would be refused",
        "views.py",
        "return () if why_not(tx, row) else (",
        "return () if False else (",
        caught_by="only_what_would_be_taken_is_offered",
    ),
)
