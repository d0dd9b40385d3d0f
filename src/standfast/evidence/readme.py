"""The first thing somebody reads who was handed a bundle and knows nothing of it."""

from __future__ import annotations

from standfast.evidence.bundle_claims import agent_of
from standfast.evidence.bundle_shapes import About
from standfast.odd_text import one_line

_TEXT = """\
This is an evidence bundle of one run of an AI agent, made, as it says, by standfast {version}.

  run          {run}
  agent        {agent}
  signed with  key {key}

report.html          the same for people; open it in any browser, it needs no network and runs no code
manifest.json        what is in here, with the SHA-256 of every part; manifest.sig is its signature (Ed25519)
run/record.jsonl     every row of the run's record, each bound by a hash to the one before it
run/transcript.json  what was said, call by call, with the places where it was stopped
run/stops.json       every stop: who, by what, when, and what had reached whom
run/ledger.json      calls in flight at each stop, every effect, and what was taken back
run/redactions.json  where something was redacted: of which kind, with a keyed hash
children/...         the same of child runs, if they were taken along
checkpoints.jsonl    signed statements of where the record stood; other runs are hashes in them
clocks.json          wall clock and machine clock beside each other
custody.json         who was shown or took this evidence, who was refused, who deleted
sealed/directive.age the agent's instructions, for the recipients alone (age -d -i KEY sealed/directive.age)

To verify it you need this file, and the public key from somebody you trust, not from here:

  pip install 'standfast[evidence]'
  standfast verify FILE.zip --key PUBLIC.pub --anchor ANCHOR

It ends with 0 only if everything is proved. It follows the record from its beginning, and makes the transcript, the
stops, the ledger and the report again from it: they cannot say anything else than the record. What stands in the report
under "Not proved by the signature" (who took this, custody, instructions, versions) only its maker says.
"""


def readme(about: About) -> bytes:
    """README.txt."""
    first = about.runs[0]
    version = about.versions.get("standfast", "")
    named = {"run": first.id, "agent": agent_of(first), "version": version, "key": about.key}
    return _TEXT.format(**{name: one_line(value) for name, value in named.items()}).encode()
