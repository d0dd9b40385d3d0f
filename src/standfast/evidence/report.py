"""What was proved about a record, what was not, and what contradicts it: in words, and as a verdict."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Verdict = Literal["proved", "unproved", "broken"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: `what` it concerns, and what was found."""

    verdict: Verdict
    what: str
    text: str


@dataclass(slots=True)
class Report:
    """Everything that was found; `verdict` is the worst of it."""

    findings: list[Finding] = field(default_factory=list[Finding])
    limits: list[str] = field(default_factory=list[str])  # what no check of this kind can prove
    as_of: str = ""  # of a bundle: the time for which it speaks; it knows nothing of what came after
    doubted: bool = False  # by a key that does not count: what fits it is not called proved
    claims: list[str] = field(default_factory=list[str])  # what only whoever signed it says; see bundle_claims

    def proved(self, what: str, text: str) -> None:
        self.findings.append(Finding("proved", what, text))

    def unproved(self, what: str, text: str) -> None:
        self.findings.append(Finding("unproved", what, text))

    def broken(self, what: str, text: str) -> None:
        self.findings.append(Finding("broken", what, text))

    def doubt(self) -> None:
        """Whoever signed it does not count: that the parts fit each other shows nothing. What contradicts it does."""
        self.doubted = True
        self.findings = [one for one in self.findings if one.verdict != "proved"]

    def of(self, verdict: Verdict) -> list[Finding]:
        return [one for one in self.findings if one.verdict == verdict]

    def is_broken(self) -> bool:
        """Has something been found that contradicts it? Asked again and again while it is being checked."""
        return any(one.verdict == "broken" for one in self.findings)

    @property
    def verdict(self) -> Verdict:
        found = {one.verdict for one in self.findings}
        return "broken" if "broken" in found else "unproved" if "unproved" in found or not found else "proved"

    @property
    def words(self) -> str:
        """The verdict as a sentence."""
        if self.verdict == "broken":
            return "this is not what was written"
        if self.verdict == "unproved" and self.doubted:
            return "nothing contradicts it, but nothing of it is proved by the keys you gave"
        if self.verdict == "unproved":
            return "nothing contradicts it, but not everything is proved"
        if self.as_of:
            return (
                f"the record is what was written, as it stood on {self.as_of}; what is only claimed is listed as such"
            )
        return "everything is what was written when it was signed"
