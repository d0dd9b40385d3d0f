"""What the store keeps of a run, as older stores have written it."""

from __future__ import annotations

from standfast.rows import RunDoc, documents


def test_steps_that_people_took_are_not_the_agents() -> None:
    """R24: `run.step`, and the keys of calls, count the agent's own."""
    assert RunDoc(steps_of_people=[0, 2]).own_step(3) == 1


def test_a_store_that_only_counted_the_steps_of_people_keeps_the_keys_of_its_calls() -> None:
    """R4, R15: a run that was taken over before an update finds the calls that it has made."""
    assert documents.validate_json(b'{"person_steps": 2}').own_step(3) == 1
