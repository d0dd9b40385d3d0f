"""A name that nobody proved is called claimed, in the same words on every surface (R32)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from standfast.names import by_words, name_words

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parents[2] / "page/test/names.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["what"])
def test_names_are_called_claimed_as_on_the_page(case: dict[str, Any]) -> None:
    assert by_words(case["by"], case["by_token"], "someone") == case["by_words"]
    assert name_words(case["by"], case["by_token"]) == case["name_words"]
