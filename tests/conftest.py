"""What the summary of a test run says beside passed and failed."""

from __future__ import annotations

from typing import Any


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The mutants' score, gathered from all workers."""
    reports = [r for kind in ("passed", "failed") for r in terminalreporter.stats.get(kind, ())]
    scores = [value for r in reports for name, value in getattr(r, "user_properties", ()) if name == "mutant"]
    if scores:
        terminalreporter.write_line(f"{scores.count('caught')} of {len(scores)} mutants caught")
