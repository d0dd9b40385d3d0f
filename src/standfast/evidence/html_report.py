"""report.html: a bundle for people. No scripts, no network; everything in it follows from the records (R32)."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256

from standfast.evidence.bundle_claims import agent_of, claims_of, who
from standfast.evidence.bundle_shapes import About, Included
from standfast.evidence.clocks import JUMP_SECONDS, Clocks
from standfast.evidence.html_text import safe, seconds, when
from standfast.evidence.html_transcript import transcript
from standfast.evidence.ledgers import CallEnd, Ledger
from standfast.evidence.run_parts import RunParts
from standfast.evidence.stop_timeline import drawing, marks_of
from standfast.house_events import HouseEvent, plain_house
from standfast.names import name_words, named
from standfast.stop_records import Reached, StopRecord, since_accepted

NOT_PROVED = "Not proved by the signature"
DELETED = "Not known: the content of this run was deleted. Who is said to have done that is under custody."
EFFECTS = "Effects, and what was taken back"
_IN_COLUMNS = ("seq", "at", "by", "by_token", "route", "type")
MOST_ROWS = 500  # of a table; the part beside it has them all
LIMITS = (
    "Whether this is what was written is not shown by reading it: `standfast verify` shows it, with a public key that"
    " you have from somebody you trust.",
    "What a model said is what its provider sent to this machine. That a certain model said it, the provider knows.",
    "Times are those of the machine's clocks; the wall clock can be set. Each time of day here is by it."
    " “From accepted” is by the seconds since the machine was started, where both moments are of one start of it.",
    "“Handed to a client” means to its connection. Nobody knows what was seen on a screen.",
    "The tripwire does not see paraphrase, translation, or ciphers other than rot13.",
    "Secrets of unknown shape are not redacted; what is redacted is not in this bundle at all.",
    "A name is the one of a token where a server asked for one. Elsewhere it is what somebody called themselves:"
    " “claimed by”. The record proves that it was given, not who gave it.",
    f"What stands under “{NOT_PROVED}”, custody for one, only whoever made this bundle says.",
)
_STYLE = """
:root{color-scheme:light dark;--ink:#1b1f24;--soft:#59636e;--line:#d1d9e0;--paper:#fff;--box:#f6f8fa;--stop:#b3261e;
--ask:#0b5cad;--odd:#8a4b00;--mark:#ffe9a8}
@media (prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9aa5b1;--line:#3d444d;--paper:#0d1117;--box:#161b22;
--stop:#ff7b72;--ask:#6cb6ff;--odd:#f0b72f;--mark:#5c4813}}
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:60rem;margin:0 auto;
padding:1.5rem}
h1{font-size:1.5rem;margin:0 0 .3rem}h2{font-size:1.2rem;margin:2rem 0 .5rem;border-bottom:1px solid var(--line)}
h3{font-size:1rem;margin:1.2rem 0 .3rem}code,pre,.mono{font-family:ui-monospace,monospace;font-size:.88em}
pre{white-space:pre-wrap;overflow-wrap:anywhere;background:var(--box);border:1px solid var(--line);border-radius:6px;
padding:.7rem;margin:.3rem 0;unicode-bidi:isolate}
h1,h2,h3,p,li{overflow-wrap:anywhere}
table{border-collapse:collapse;width:100%;font-size:.92em;margin:.4rem 0}
th,td{text-align:left;vertical-align:top;border-bottom:1px solid var(--line);padding:.25rem .6rem .25rem 0}
td{overflow-wrap:anywhere}
th{color:var(--soft);font-weight:600}.soft{color:var(--soft)}.odd{color:var(--odd);font-family:ui-monospace,monospace}
.cut{display:inline-block;color:var(--paper);background:var(--stop);border-radius:4px;padding:0 .4em;font-size:.82em;
font-family:system-ui,sans-serif}
.suspect{color:var(--stop);border:1px solid var(--stop);border-radius:4px;padding:0 .4em;font-size:.82em;
font-family:system-ui,sans-serif}
mark{background:var(--mark);color:inherit;border-bottom:2px solid var(--stop)}
section.stop{border:1px solid var(--line);border-left:5px solid var(--stop);border-radius:6px;padding:.4rem 1rem;
margin:1rem 0}
svg{width:100%;display:block}svg text{font:12px system-ui,sans-serif;fill:currentColor}svg .number{font-family:
ui-monospace,monospace}svg .rail{stroke:var(--line)}svg .zero{stroke:var(--stop);stroke-dasharray:4 3}
svg circle{fill:var(--ink)}svg .asked{fill:var(--ask)}svg .accepted,svg .settled{fill:var(--stop)}
@media (max-width:40rem){body{padding:.8rem}section.stop{padding:.3rem .6rem}tr,th,td{display:block;padding:0}
tr{border-bottom:1px solid var(--line);padding:.3rem 0}th,td{border:0}tr.head{display:none}
td[data-of]::before{content:attr(data-of) ": ";color:var(--soft)}td[data-of=""]::before{content:""}}
@media print{body{max-width:none;padding:0;font-size:11px}section.stop,tr,svg{break-inside:avoid}}
"""
_POLICY = f"default-src 'none'; style-src 'sha256-{b64encode(sha256(_STYLE.encode()).digest()).decode()}'"


def report_page(
    about: About, runs: Sequence[RunParts], clocks: Clocks, custody: Sequence[HouseEvent]
) -> Iterator[bytes]:
    """The page, piece by piece; the same for the same bundle, to the byte."""
    for piece in _page(about, runs, clocks, custody):
        yield piece.encode()


def _page(about: About, runs: Sequence[RunParts], clocks: Clocks, custody: Sequence[HouseEvent]) -> Iterator[str]:
    first = about.runs[0]
    yield (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{safe(_POLICY)}">'
        '<meta name="referrer" content="no-referrer"><meta name="viewport" content="width=device-width">'
        f"<title>Evidence of run {safe(first.id)}</title><style>{_STYLE}</style></head><body>\n"
    )
    yield f"<h1>Evidence of run <code>{safe(first.id)}</code></h1>\n"
    yield from _summary(about, runs)
    yield "<h2>What this page does not prove</h2><ul>"
    yield from (f"<li>{safe(limit)}</li>" for limit in LIMITS)
    yield "</ul>\n"
    for one, parts in zip(about.runs, runs, strict=True):
        yield from _run(one, parts, heading=len(runs) > 1)
    yield from _clocks(clocks)
    yield "<h2>How to verify</h2><pre>standfast verify FILE.zip --key PUBLIC.pub --anchor ANCHOR</pre>"
    yield from _claimed(about, custody)
    yield "</body></html>\n"


def _summary(about: About, runs: Sequence[RunParts]) -> Iterator[str]:
    first, parts = about.runs[0], runs[0]
    stops = f"with {len(parts.stops)} stop{'' if len(parts.stops) == 1 else 's'}"
    if first.forgotten:
        stops = "whether it was stopped is not known any more"
    yield f"<p>Agent <b>{safe(agent_of(first))}</b>, <b>{safe(first.status)}</b> when this was made; {stops}.</p>"
    if first.forgotten:
        yield "<p><b>The content of this run was deleted.</b> Its rows keep their place by hashes; see custody.</p>"
    rows = [
        ("as it stood on", when(about.made.at)),
        ("events", f"{first.seq} in {first.rows} rows, from {when(parts.begun)} to {when(parts.ended)}")
        if parts.events
        else ("events", f"{first.seq} in {first.rows} rows"),
        ("models", _models(about)),
        ("signed with key", about.key),
        ("checkpoint", f"{about.checkpoint}, made for this bundle"),
        ("child runs", _children(about)),
    ]
    yield _table((), rows)


def _models(about: About) -> str:
    gone = "not known: deleted" if any(one.forgotten for one in about.runs) else ""
    named = ", ".join(about.models)
    return f"{named}; of what was deleted not known" if named and gone else named or gone or "none was asked"


def _children(about: About) -> str:
    if any(one.forgotten for one in about.runs):
        return "not known: deleted"
    inside = [one.id for one in about.runs[1:]]
    words = f"in here: {', '.join(inside)}. " if inside else ""
    left = about.children_not_included
    return words + (f"not in here: {', '.join(left)}" if left else "" if inside else "none")


def _run(one: Included, parts: RunParts, *, heading: bool) -> Iterator[str]:
    if heading:
        yield f"<h2>Run <code>{safe(one.id)}</code> ({safe(agent_of(one))})</h2>\n"
    if one.forgotten:  # an empty section would read as if nothing had happened
        for title in ("Stops", "What was said", EFFECTS, "Redacted"):
            yield f"<h2>{title}</h2>\n<p>{DELETED}</p>"
        return
    yield "<h2>Stops</h2>\n"
    if not parts.stops:
        yield "<p>Nobody and nothing has stopped it.</p>"
    for stop in parts.stops:
        yield from _stop(stop, parts.ledger)
    yield "<h2>What was said</h2>\n"
    yield from transcript(parts.transcript, parts.stops)
    yield from _effects(parts.ledger)
    yield from _redactions(parts)


def _stop(stop: StopRecord, ledger: Ledger) -> Iterator[str]:
    yield f'<section class="stop"><h3>Stop {stop.number}: {safe(stop.verb)}, now {safe(stop.status)}</h3>'
    asked = who(named(stop.by, stop.trigger), stop.by_token)
    yield (
        f"<p>Asked: <b>{safe(asked)}</b>, trigger <b>{safe(stop.trigger)}</b>"
        f"{', by way of ' + safe(stop.route) if stop.route else ''}; reason: {safe(stop.reason or 'none given')}.</p>"
    )
    yield drawing(stop)
    yield _table(
        ("", "wall clock", "from accepted"),
        [
            (
                mark.label,
                "not known" if mark.moment is None else when(mark.moment.at),
                seconds(since_accepted(stop, mark.moment)),
            )
            for mark in marks_of(stop)
        ],
    )
    caught = [one for told in ledger.stops if told.seq == stop.seq for one in told.calls]
    if caught:
        yield "<h3>In flight when it was accepted</h3>"
        yield _table(
            ("call", "effect", "how it ended"),
            [(f"{one.tool} {one.call}", one.effect, _end(one.end)) for one in caught],
        )
    if stop.clients:
        yield "<h3>What had been handed to whom</h3>"
        head = ("client", "by way of", "id", "characters", "after it was accepted", "state")
        yield _table(head, map(_client, stop.clients))
    elif not stop.clients_known:
        yield '<p class="soft">No server has told what its clients had been handed: that is not known.</p>'
    else:
        yield '<p class="soft">No client was connected.</p>'
    for told in stop.told:
        if told.left_out:
            words = f"{told.left_out} more clients of server {safe(told.server)} were left out of the record"
            yield f"<p><b>{words}</b>: what they had been handed is not known.</p>"
    if stop.held_back:
        yield "<h3>What was kept in, or went over no counted connection</h3>"
        kept = {"tripwire": "kept in by a tripwire", "not_handed_over": "not handed over a counted connection"}
        yield _table(
            ("call", "from character", "characters", "why", "SHA-256"),
            [(one.call, one.start, one.characters, kept[one.why], one.digest) for one in stop.held_back],
        )
    yield "</section>\n"


def _client(client: Reached) -> Sequence[object]:
    """A row that no other client has: two tabs of one person differ in their ids."""
    characters = f"{sum(one.characters for one in client.texts)}"
    if client.left_out:
        characters += f" and {client.left_out} older pieces"
    after = f"{'at least ' if client.at_least else ''}{client.after_accepted}"
    state = "had left" if client.left is not None else "still behind: more may have followed" if client.behind else ""
    return (
        name_words(client.by, client.by_token, "no name"),
        client.way,
        client.client,
        characters,
        after,
        state or "had everything",
    )


def _end(end: CallEnd | None) -> str:
    if end is None:
        return "no end is in this record"
    return f"{end.outcome.replace('_', ' ')}{f' ({end.why})' if end.why else ''}, {when(end.at)}"


def _effects(ledger: Ledger) -> Iterator[str]:
    yield f"<h2>{EFFECTS}</h2>\n"
    if not ledger.effects:
        yield "<p>No call with effects was made.</p>"
    else:
        yield _table(
            ("call", "effect", "begun", "ended", "undo"),
            [
                (
                    f"{one.tool} {one.call}",
                    one.effect,
                    when(one.at),
                    _end(one.ends[-1] if one.ends else None),
                    f"{one.undo[-1].outcome} {one.undo[-1].reason}".strip() if one.undo else "not tried",
                )
                for one in ledger.effects
            ],
        )
    if ledger.left:
        yield "<h3>Left behind, or late</h3>"
        yield _table(("what", "why", "when"), [(one.what, one.why, when(one.at)) for one in ledger.left])


def _redactions(parts: RunParts) -> Iterator[str]:
    yield "<h2>Redacted</h2>\n"
    counts: dict[tuple[str, str], int] = {}
    for one in parts.redactions:
        counts[one.kind, one.hash] = counts.get((one.kind, one.hash), 0) + 1
    if not counts:
        yield "<p>The record names no secret that was taken out.</p>"
    else:
        rows = [(kind, hash_, count) for (kind, hash_), count in sorted(counts.items())]
        yield _table(("kind", "keyed hash", "places"), rows)


def _clocks(clocks: Clocks) -> Iterator[str]:
    yield "<h2>Clocks</h2>\n"
    for jump in clocks.jumps:
        way = "forward" if jump.seconds > 0 else "back"
        yield f"<p><b>The wall clock was set {way} by {abs(jump.seconds):.1f} s</b> "
        yield f"between {safe(jump.after)} and {safe(jump.before)}.</p>"
    if not clocks.jumps:
        read = sum(one.boot is not None and one.uptime is not None for one in clocks.readings)
        yield f"<p>Both clocks were read together {read} times. From one to the next of one machine they moved alike, "
        yield f"to within {JUMP_SECONDS:g} s: less is not noticed. Each is in clocks.json.</p>"


def _claimed(about: About, custody: Sequence[HouseEvent]) -> Iterator[str]:
    """All that does not follow from the signed record: everything above does."""
    yield f"<h2>{NOT_PROVED}</h2>"
    yield "<p><b>Whoever made this bundle says the following, and nothing here proves it.</b> The signature shows that"
    yield " it was said with the key, not that it is so.</p>\n"
    yield _table((), claims_of(about, custody))
    yield from _custody(custody)


def _custody(custody: Sequence[HouseEvent]) -> Iterator[str]:
    yield "<h3>Custody</h3>"
    yield "<p>Who was shown or took this evidence, who was refused, given rights, or deleted content.</p>\n"
    rows: list[Sequence[object]] = []
    for event in custody:
        told = plain_house(event)
        more = {name: value for name, value in told.items() if name not in _IN_COLUMNS and value}
        words = "; ".join(f"{name}: {value}" for name, value in more.items())
        rows.append((when(event.at), who(event.by, event.by_token), event.type.replace("_", " "), words, event.route))
    yield _table(("when", "who", "what", "about", "by way of"), rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    listed = list(rows)
    parts = ["<table>"]
    if head:
        parts.append(f'<tr class="head">{"".join(f"<th>{safe(cell)}</th>" for cell in head)}</tr>')
    for row in listed[:MOST_ROWS]:
        if head:  # where the page is narrow, each cell says itself what it is
            cells = [f'<td data-of="{safe(name)}">{safe(cell)}</td>' for name, cell in zip(head, row, strict=True)]
        else:
            cells = [f"<th>{safe(row[0])}</th>", *(f"<td>{safe(cell)}</td>" for cell in row[1:])]
        parts.append(f"<tr>{''.join(cells)}</tr>")
    left = len(listed) - MOST_ROWS
    more = f'<p class="soft">and {left} more, in the parts of the bundle</p>' if left > 0 else ""
    return "".join([*parts, "</table>", more, "\n"])
