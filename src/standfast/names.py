"""Who did it, in words: a name is known only where a server was shown a token; elsewhere it is what somebody typed.

What decides is `by_token` in the signed record, and what is derived from it: nobody can give it as an argument. Every
surface uses these words. The page has them too (page/src/names.ts); page/test/names.json is for both.
"""

from __future__ import annotations


def named(by: str | None, trigger: str) -> str | None:
    """Who stopped a run; None of what nobody asked for: a tripwire's own stop, as its trigger says."""
    return None if by == trigger == "tripwire" else by


def by_words(by: str | None, by_token: str, nobody: str = "") -> str:
    """`by ann`, `claimed by ann`; `nobody` stands for a name that was not given."""
    if not by:
        return f"by {nobody}" if nobody else ""
    return f"by {by}" if by_token else f"claimed by {by}"


def name_words(by: str | None, by_token: str, nobody: str = "someone") -> str:
    """`ann`, `ann (claimed)`: where a sentence begins with the name, or has it from somebody."""
    if by in (None, "", nobody):
        return nobody
    return by if by_token else f"{by} (claimed)"
