"""Scenarios for the guards of evidence; each raises when its guard is gone."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.evidence import test_bundle_forged as forged
from tests.evidence import test_bundle_taken as taken
from tests.evidence.bundling import World, make_world
from tests.ledger import test_last_step as last_step
from tests.stops import test_telling as telling

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
