"""Runs by their labels: the condition of one label, and the values it wants."""

from __future__ import annotations

from collections.abc import Mapping

HAS_LABEL = "EXISTS (SELECT 1 FROM json_each(doc, '$.labels') l WHERE l.key = ? AND l.value = ?)"
IS_KNOWN_TO_HAVE_LABEL = f"CASE WHEN json_valid(doc) THEN {HAS_LABEL} ELSE 0 END"  # bears damaged rows


def label_values(labels: Mapping[str, str]) -> list[str]:
    """To be bound, for one condition after the other."""
    return [part for label in labels.items() for part in label]
