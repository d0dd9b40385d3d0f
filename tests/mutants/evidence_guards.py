"""Scenarios for the guards of evidence; each raises when its guard is gone."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.evidence import test_bundle_claims as claims
from tests.evidence import test_bundle_forged as forged
from tests.evidence import test_bundle_taken as taken
from tests.evidence import test_redacted_outside as outside
from tests.evidence import test_redaction_is_linear as linear
from tests.evidence import test_replaced_keys as replaced
from tests.evidence.bundling import World, make_world
from tests.ledger import test_last_step as last_step
from tests.server import test_guard as guarding
from tests.stops import test_telling as telling

from standfast.events import Noted
from standfast.redaction import Redactor

SECONDS = 60


def _bundling(scenario: Callable[[World, Path], Coroutine[Any, Any, None]]) -> None:
    """On a signed store with a few runs, of which bundles are taken."""

    async def main(folder: Path) -> None:
        async with asyncio.timeout(SECONDS):
            world = await make_world(folder)
            (folder / "bundles").mkdir()
            await scenario(world, folder / "bundles")

    with tempfile.TemporaryDirectory(prefix="standfast-guard-") as folder:
        asyncio.run(main(Path(folder)))


def _forging(scenario: Callable[[World, dict[str, bytes], Path], None]) -> None:
    """The same, with a bundle that is taken apart."""
    with tempfile.TemporaryDirectory(prefix="standfast-guard-") as folder:
        world = asyncio.run(make_world(Path(folder)))
        scenario(world, forged.second_of_two(world, Path(folder)), Path(folder))


def _rekeying(scenario: Callable[[World, Path], None]) -> None:
    """On a copy of such a store, whose key is changed."""
    with tempfile.TemporaryDirectory(prefix="standfast-guard-") as folder:
        world = asyncio.run(make_world(Path(folder)))
        (Path(folder) / "more").mkdir()
        scenario(replaced.copied(world, Path(folder) / "mine"), Path(folder) / "more")


def what_a_step_says_is_redacted() -> None:
    outside.test_what_a_step_says_is_redacted_when_its_commit_is_sealed(Noted)


def what_is_made_in_a_transaction_is_redacted() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="standfast-guard-") as folder,
        pytest.MonkeyPatch.context() as patch,
        outside.watched(patch) as watching,
    ):
        asyncio.run(
            outside.test_a_plan_line_whose_redirect_was_missed_puts_no_secret_into_the_record(Path(folder), watching)
        )


def nothing_is_redacted_inside_a_transaction() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="standfast-guard-") as folder,
        pytest.MonkeyPatch.context() as patch,
        outside.watched(patch) as watching,
    ):
        outside.test_no_field_of_an_event_takes_a_secret_into_the_record(Path(folder), watching, Noted, ())


def a_word_of_beginnings_is_read_once() -> None:
    assert linear.is_linear(lambda n: lambda: linear.ALL.text("-eyJ" * (n // 4)), 8_000)


def short_matches_after_long_tries_are_bounded() -> None:
    redactor = Redactor(r"pw(?:.*end)?", known=(), key=b"k")
    assert redactor.text("pw" * 20_000).count("[redacted:") < 10_000


def custody_is_of_this_run_alone() -> None:
    _bundling(taken.test_custody_of_other_runs_is_not_in_it)


def only_what_the_run_had_is_sealed() -> None:
    _bundling(taken.test_instructions_that_the_run_did_not_have_are_not_sealed_as_its_own)


def what_is_exported_was_signed_for() -> None:
    with pytest.MonkeyPatch.context() as patch:
        _bundling(
            lambda world, folder: taken.test_a_record_that_is_not_the_one_just_signed_for_is_not_exported(
                world, folder, patch
            )
        )


def a_checkpoint_is_of_the_trusted_key() -> None:
    _forging(forged.test_a_checkpoint_of_another_key_is_found)


def checkpoints_are_in_order() -> None:
    _forging(forged.test_checkpoints_out_of_order_are_found)


def a_checkpoint_follows_the_one_before_it() -> None:
    _forging(forged.test_a_checkpoint_that_does_not_follow_the_one_before_it_is_found)


def no_row_is_hidden() -> None:
    _forging(forged.test_rows_cannot_be_hidden_as_if_they_had_been_deleted)


def no_run_is_hidden() -> None:
    _forging(forged.test_no_run_is_hidden_as_if_it_had_been_deleted)


def children_are_those_of_the_records() -> None:
    _forging(
        lambda world, _, folder: (
            claims.test_a_child_that_the_record_does_not_name_is_found_and_one_that_it_names_cannot_be_left_out(
                world, folder, ["smiths.invented"]
            )
        )
    )


def claims_stand_below_the_line() -> None:
    test = claims.test_what_only_the_manifest_says_is_listed_as_claimed_and_stands_nowhere_else
    _forging(lambda world, parts, folder: test(world, parts, folder, claims.court, "judge"))


def guesses_are_slowed_down() -> None:
    test = guarding.test_wrong_tokens_from_one_address_are_slowed_down_and_a_right_one_is_let_in_all_the_same
    with tempfile.TemporaryDirectory(prefix="standfast-guard-") as folder:
        asyncio.run(test(Path(folder)))


def a_replaced_key_signs_no_bundles() -> None:
    _rekeying(replaced.test_a_bundle_that_the_old_key_signs_after_the_change_is_not_what_was_written)


def an_old_key_vouches_for_nobody_else() -> None:
    _rekeying(replaced.test_an_old_key_cannot_vouch_for_another_one_behind_the_new_one_s_back)


def a_manifest_is_signed_as_its_checkpoint_is() -> None:
    _rekeying(replaced.test_a_bundle_of_a_stranger_is_never_proved_and_a_lie_in_it_is_found)


def a_replaced_key_signs_no_checkpoints() -> None:
    test = replaced.test_a_checkpoint_that_the_old_key_signs_for_the_row_of_its_own_change_is_found
    _rekeying(lambda mine, _: test(mine))


def a_replaced_key_signs_no_halts() -> None:
    test = replaced.test_a_halt_that_the_old_key_signed_counts_if_it_was_set_before_the_change
    _rekeying(lambda mine, _: test(mine))


def a_name_is_known_by_a_token_alone() -> None:
    with tempfile.TemporaryDirectory(prefix="standfast-guard-") as folder:
        asyncio.run(claims.test_a_way_that_looks_like_a_server_s_makes_no_name_known(Path(folder)))


def a_stop_is_told_of_once() -> None:
    with pytest.MonkeyPatch.context() as patch:
        telling.be_patient(patch)
        asyncio.run(telling.test_a_stop_is_told_of_once_also_when_the_first_answer_was_lost(patch))


def who_left_is_told_of() -> None:
    asyncio.run(telling.test_who_left_in_the_midst_of_it_is_told_of())


def a_run_is_followed_for_those_who_left() -> None:
    asyncio.run(telling.test_a_run_is_followed_on_for_the_last_one_who_left_in_the_midst_of_it())


def who_left_before_has_nothing_of_it() -> None:
    asyncio.run(telling.test_who_left_before_the_step_began_has_nothing_of_it())


def nobody_acts_after_the_last_step() -> None:
    performing = last_step.test_nobody_performs_anything_in_a_run_whose_locks_are_being_released()
    asyncio.run(asyncio.wait_for(performing, SECONDS))


def nothing_leads_back_from_the_last_step() -> None:
    asyncio.run(last_step.test_no_verb_takes_it_back_into_a_step("redirect now"))


def the_last_step_outlives_a_crash() -> None:
    asyncio.run(last_step.test_paused_in_a_crash_it_ends_when_it_is_resumed())
