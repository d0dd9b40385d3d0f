"""Secrets of known shapes do not get into the record; what a run needs to go on stays as it was (R32)."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pydantic_core import to_json

from standfast import Done, Misuse, Run, Runtime, TextDelta, agent, say, tool
from standfast.events import TextFlushed
from standfast.redaction import KNOWN, Redactor, Secret, Stream, as_redactor, of_environment

# Put together here, so that no scanner of this repository takes them for real ones.
OPENAI = "sk-" + "proj-Zm9vYmFyYmF6cXV4MTIz"
AWS = "AKIA" + "IOSFODNN7EXAMPLE"
GITHUB = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
BEARER = "Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5"
PRIVATE = "-----BEGIN RSA PRIVATE KEY-----\nMIIBOgIBAAJBAK\nq8Z1\n-----END RSA PRIVATE KEY-----"
JWT = "eyJ" + "hbGciOiJIUzI1NiJ9." + "eyJ" + "zdWIiOiIxMjM0In0." + "dozjgNryP4J3jVmN"
AWS_SECRET = "wJalrXUtnFEMI/K7MDENG" + "/bPxRfiCYEXAMPLEKEY"
PGP = "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nlQOYBF\n=q8Z1\n-----END PGP PRIVATE KEY BLOCK-----"
SHAPES = {
    "api_key": (f"use {OPENAI} now", OPENAI),
    "aws_secret": (f"AWS_SECRET_ACCESS_KEY={AWS_SECRET}", AWS_SECRET),
    "aws_key": (f"id={AWS};", AWS),
    "github_token": (f"token {GITHUB}.", GITHUB),
    "bearer": (f"Authorization: Bearer {BEARER}", BEARER),
    "url_password": ("postgres://ana:s3cret-word@db/x", "s3cret-word"),
    "private_key": (f"key: {PRIVATE} end", PRIVATE),
    "jwt": (f"jwt={JWT}", JWT),
    "slack_token": ("xox" + "b-123456789012-abc", "xox" + "b-123456789012-abc"),
    "standfast_token": (f"link #token={'sf_' + 'Q' * 43}", "sf_" + "Q" * 43),
    "google_key": ("AIza" + "SyA1234567890abcdefghijklmnopqrstuv", "AIza" + "SyA1234567890abcdefghijklmnopqrstuv"),
}
ORDINARY = [
    "a task-force of risk-averse people, and a bearer of good news",
    "see https://example.com/a:b@c and mailto:ana@example.com",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "sk-short, AKIA, ghost_writer, eyJust",
    "it's",
    "[ask-someone-about-it-please] and [0]task-force-of-risk-averse-people, 50%dask-distributed-scheduler",
    r"C:\ask-someone-about-it-please and C:\temp\risk-averse-people",
    "http://localhost:8080/users/@ana http://[::1]:80/users@2 https://h:443/a@b?c=d@e ssh://git@host:22/x@y",
    "my_task-force-of-risk-averse-people, a BEARER of good news, bearer tokens are kept",
    "xapp-navigation-bar-left, secret_access_key is required, SecretAccessKey: string",
    "-----BEGIN PGP PUBLIC KEY BLOCK-----\nmQENBF\n-----END PGP PUBLIC KEY BLOCK-----",
]
BEFORE = {
    "JSON line break": json.dumps("a\n")[:-1],
    "JSON tab": json.dumps("a\t")[:-1],
    "JSON in JSON": json.dumps(json.dumps("a\n")[:-1])[:-1],
    "repr": repr("a\r\n")[:-1],
    "repr of a control character": repr("a\x0b")[:-1],
    "quote as JSON may write it": "\\u0022",
    "octal": r"\033",
    "colour": "\x1b[31m",
    "many colours": "\x1b[1;38;2;255;255;255;48;2;0;0;0m",
    "end of a colour": "\x1b[m",
    "end of a colour, as tput writes it": "\x1b(B",
    "colour in JSON": json.dumps("\x1b[31m")[:-1],
    "end of a colour in JSON": json.dumps("\x1b[m")[:-1],
    "colour in a script": r"\033[0;31m",
    "colour in a shell": r"\e[m",
    "percent": "q=%22",
    "percent twice": "q=%2522",
    "underscore": "key_",
}
MORE_SHAPES = [
    ("private_key", PGP, PGP),
    ("private_key", json.dumps(PGP), json.dumps(PGP)[1:-1]),
    ("url_password", "postgres://svc:p@ssw0rd-Long@db/x", "p@ssw0rd-Long"),
    ("url_password", "see mongodb://a:first@h1,b:se@ond@h2/x", "first@h1,b:se@ond"),
    ("url_password", "amqp://svc:ab/cdEFGH12@mq", "ab/cdEFGH12"),
    ("url_password", "amqp://svc:12ab/c/dEFGH12@mq/a", "12ab/c/dEFGH12"),
    ("bearer", f"AUTHORIZATION: BEARER {BEARER}", BEARER),
    ("bearer", f"?h=Bearer%20{BEARER}", BEARER),
    ("slack_token", "xapp" + "-1-A0123456789-abcdef", "xapp" + "-1-A0123456789-abcdef"),
    ("aws_secret", json.dumps({"SecretAccessKey": AWS_SECRET}), AWS_SECRET),
    ("aws_secret", json.dumps(json.dumps({"secretAccessKey": AWS_SECRET})), AWS_SECRET),
    ("aws_secret", f"aws_secret_access_key = {AWS_SECRET}\n", AWS_SECRET),
    ("aws_secret", f'os.environ["AWS_SECRET_ACCESS_KEY"] = "{AWS_SECRET}"', AWS_SECRET),
    ("aws_secret", f"awsSecretAccessKey: '{AWS_SECRET}'", AWS_SECRET),
    ("aws_secret", f"<SecretAccessKey>{AWS_SECRET}</SecretAccessKey>", AWS_SECRET),
]


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("secret", [OPENAI, AWS, GITHUB, JWT, f"Bearer {BEARER}"], ids=lambda one: one[:6])
def test_a_secret_right_after_an_escape_of_a_text_in_the_text_is_replaced(secret: str, before: str) -> None:
    """The last letter of `\\n`, of a colour or of `%22` belongs to no word."""
    redactor = Redactor(key=b"k")
    exact = secret.removeprefix("Bearer ")
    for text in (BEFORE[before] + secret, f"x {BEFORE[before]}{secret} y"):
        clean = redactor.text(text)
        assert clean.startswith(text[: text.index(exact)] + "[redacted:")
        assert exact not in clean
        line = to_json([{"type": "noted", "text": text}])
        assert json.loads(redactor.line(line)) == [{"type": "noted", "text": clean}]
        stream = Stream(redactor)
        assert "".join([*map(stream.feed, text), stream.finish()]) == clean


@pytest.mark.parametrize(("name", "text", "secret"), MORE_SHAPES, ids=lambda one: one[:24])
def test_secrets_that_look_otherwise_are_replaced_too(name: str, text: str, secret: str) -> None:
    redactor = Redactor(key=b"k")
    clean = redactor.text(text)
    assert clean == text.replace(secret, f"[redacted:{name}:{redactor.hash_of(secret)}]") != text
    line = to_json([{"type": "noted", "text": text}])
    assert json.loads(redactor.line(line)) == [{"type": "noted", "text": clean}]
    assert not redactor.passes(line)


@pytest.mark.parametrize("letter", "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
def test_the_end_of_a_word_is_said_at_once(letter: str) -> None:
    """No letter at the end of a word is held back because a secret might begin with it."""
    stream = Stream(Redactor(key=b"k"))
    assert stream.feed(f"more to com{letter}").endswith(letter) or letter == "-"


def test_there_is_a_sample_of_every_known_shape() -> None:
    assert set(SHAPES) == {one.name for one in KNOWN}


@pytest.mark.parametrize("name", SHAPES)
def test_a_secret_of_a_known_shape_is_replaced(name: str) -> None:
    text, secret = SHAPES[name]
    redactor = Redactor(key=b"k")
    clean = redactor.text(text)
    assert secret not in clean
    assert f"[redacted:{name}:{redactor.hash_of(secret)}]" in clean
    line = json.dumps([{"type": "noted", "text": text, "n": 1.5, "deep": {"x": [text]}}]).encode()
    assert json.loads(redactor.line(line)) == [{"type": "noted", "text": clean, "n": 1.5, "deep": {"x": [clean]}}]


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    redactor = Redactor()
    assert redactor.text(text) == text
    line = json.dumps([text]).encode()
    assert redactor.line(line) is line


ODD_VALUES = [
    'pa"ss\\word-1234',
    "four\nlines\nof a\tkey",
    '"quoted-at-once"',
    "b\x01\x7f\x0c-control-1",
    "schlüssel-größe-12",
]


@pytest.mark.parametrize("value", ODD_VALUES)
def test_a_value_of_the_environment_is_found_however_json_writes_it(value: str) -> None:
    """The quick look sees escapes, not the value: the same for one line, for several, and in pieces."""
    redactor = Redactor(*of_environment({"DB_PASSWORD": value}), key=b"k")
    clean = redactor.text(f"it is x{value}x.")
    assert clean == f"it is x[redacted:DB_PASSWORD:{redactor.hash_of(value)}]x."
    line = to_json([{"type": "noted", "text": f"it is x{value}x."}])
    assert json.loads(redactor.line(line))[0]["text"] == clean
    assert json.loads(redactor.lines(line + b"\n[1]").split(b"\n")[0])[0]["text"] == clean
    for cut in range(len(value)):
        stream = Stream(redactor)
        said = [stream.feed(f"it is x{value[:cut]}"), stream.feed(f"{value[cut:]}x."), stream.finish()]
        assert "".join(said) == clean, cut
        assert value[:8] not in said[0], cut


def test_a_value_is_found_where_json_escapes_what_it_need_not() -> None:
    redactor = Redactor(*of_environment({"DB_PASSWORD": "passwort-schlüssel"}), key=b"k")
    line = json.dumps([{"type": "noted", "text": "passwort-schlüssel"}]).encode()
    assert b"\\u00fc" in line
    assert b"schl" not in redactor.line(line)


def test_a_pattern_of_ones_own_is_found_however_json_writes_it() -> None:
    redactor = Redactor(Secret("vault", 'key="([^"]{4,})"', ('key="',)), key=b"k")
    clean = redactor.line(to_json([{"type": "noted", "text": 'the key="four words" opens it'}]))
    assert json.loads(clean)[0]["text"] == f'the key="[redacted:vault:{redactor.hash_of("four words")}]" opens it'


@pytest.mark.parametrize("space", [" ", "\n", "\t", "\x0b", "\x0c", "\xa0"])
def test_a_bearer_is_found_after_whatever_space(space: str) -> None:
    redactor = Redactor(key=b"k")
    assert BEARER.encode() not in redactor.line(to_json([f"Authorization: Bearer{space}{BEARER}"]))


def test_a_value_of_the_environment_that_is_no_text_keeps_nobody_from_starting() -> None:
    redactor = Redactor(*of_environment({"MY_TOKEN": "caf\udce9-0123456789"}))
    assert redactor.line(b'["cafe"]') == b'["cafe"]'


def test_equal_secrets_can_be_matched_by_who_has_the_key() -> None:
    one, two = Redactor(key=b"a"), Redactor(key=b"b")
    assert one.text(OPENAI) == one.text(OPENAI) != one.text(OPENAI + "x")
    assert one.text(OPENAI) != two.text(OPENAI)


@pytest.mark.parametrize("name", SHAPES)
def test_a_secret_that_comes_in_pieces_is_held_back(name: str) -> None:
    """Cut at every place, and into single characters."""
    text, secret = SHAPES[name]
    redactor = Redactor(key=b"k")
    whole = f"before {text} after, and more"
    cuts = [[whole[:n], whole[n:]] for n in range(len(whole))] + [list(whole)]
    for pieces in cuts:
        stream = Stream(redactor)
        said = [stream.feed(piece) for piece in pieces]
        said.append(stream.finish())
        assert secret not in "".join(said), pieces
        assert "".join(said) == redactor.text(whole), pieces
        assert all(len(secret) < 12 or secret[:12] not in one for one in said)


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_in_pieces_is_said_in_full(text: str) -> None:
    stream = Stream(Redactor())
    assert "".join([*(stream.feed(c) for c in text), stream.finish()]) == text


def test_text_is_not_held_back_for_ever() -> None:
    stream = Stream(Redactor())
    said = stream.feed("-----BEGIN PRIVATE KEY-----\n" + "A" * 20_000)
    assert said
    assert "[redacted:private_key:" in said


def test_patterns_of_ones_own() -> None:
    redactor = as_redactor([r"patient \d+", Secret("vault", r"hvs\.\w{8,}", ("hvs.",))])
    assert redactor is not None
    clean = redactor.text(f"patient 4711 with hvs.abcdefgh and {OPENAI}")
    assert re.fullmatch(r"\[redacted:own1:\w{8}\] with \[redacted:vault:\w{8}\] and \[redacted:api_key:\w{8}\]", clean)
    assert b"4711" not in redactor.line(b'["patient 4711"]')
    assert as_redactor(False) is None
    with pytest.raises(Misuse, match="list of patterns"):
        as_redactor("x")  # type: ignore[arg-type]
    with pytest.raises(Misuse, match="cannot be read"):
        Redactor("(")


@dataclass
class Notes:
    """What the clerk keeps."""

    kept: list[str] = field(default_factory=list[str])
    text: str = ""


@tool(effect="write")
async def fetch(token: str) -> str:
    """Answers with what it was given."""
    for character in f"I use {token} for this":
        say(character)
    return f"fetched with {token}"


@agent("clerk")
async def clerk(run: Run[Notes]) -> Done[str] | None:
    """Uses a secret, says it, and keeps it."""
    result = await run.call(fetch(OPENAI))
    run.note(f"the token is {AWS}")
    run.emit("found", {"url": "https://ana:s3cret-word@db"})
    run.state.kept.append(result)
    return Done(result)


async def test_the_record_has_no_secrets_and_the_run_has_all_of_them(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with Runtime(path, [clerk]) as runs:
        run = await runs.start(clerk, Notes(text=GITHUB), reason=f"with {GITHUB}")
        assert await run.result(timeout=120) == f"fetched with {OPENAI}"  # exact, for who needs it
        assert (await run.state()).kept == [f"fetched with {OPENAI}"]
        said = [one.text for one in await run.transcript()]
        secret = Redactor(key=runs._redactor.key)  # type: ignore[union-attr]  # pyright: ignore
        assert said == [f"I use [redacted:api_key:{secret.hash_of(OPENAI)}] for this"]
    db = sqlite3.connect(path)
    record = b"\n".join(body for (body,) in db.execute("SELECT body FROM record"))
    calls = b"\n".join(bytes(args) for (args,) in db.execute("SELECT args FROM calls"))
    db.close()
    for hidden in (OPENAI, AWS, GITHUB, "s3cret-word"):
        assert hidden.encode() not in record
    assert OPENAI.encode() in calls  # the journal is exact until the run is forgotten
    assert record.count(f"api_key:{secret.hash_of(OPENAI)}".encode()) >= 3  # arguments, text, result: one secret


WARD = "".join(f"patient {4711 + n} is well; " for n in range(300))


@tool(effect="read")
async def rounds() -> None:
    """Speaks of patients, in pieces of seven characters."""
    for start in range(0, len(WARD), 7):
        say(WARD[start : start + 7])
        await asyncio.sleep(0)


@agent("nurse")
async def nurse(run: Run[Notes]) -> Done[None]:
    """Goes her rounds once."""
    await run.call(rounds())
    return Done(None)


async def test_what_is_told_stands_where_its_offset_says_whatever_was_replaced() -> None:
    """R31: of a pattern that can only be looked for when pieces are joined; live text goes on behind what was kept."""
    async with Runtime(":memory:", [nurse], redact=[r"patient \d+"]) as runs:
        run = await runs.start(nurse, Notes())
        recorded, live, came, flushes = "", "", 0, 0
        async for event in run.events():
            if isinstance(event, TextDelta):
                live, came = live[: event.offset] + event.text, came + 1
            elif isinstance(event, TextFlushed):
                assert event.offset == len(recorded)
                recorded, flushes = recorded + event.text, flushes + 1
                live = live[: event.offset] + event.text
            elif event.type == "run_done":
                break
        [said] = await run.transcript()
    assert came > 100
    assert said.text == recorded == live
    assert recorded.count("[redacted:own1:") >= 300 - flushes  # a flush may split one


def test_what_is_without_secrets_stays_as_it_is() -> None:
    """Twice over, in the stream and in the store: hashes can be matched."""
    redactor = Redactor(r"\d{3}", r"[0-9a-f]{4}", r"own\d", key=b"k")
    for text in (*[text for text, _ in SHAPES.values()], "123 and 4567, own1", "[redacted:api_key:1234abcd]"):
        once = redactor.text(text)
        assert redactor.text(once) == once
    assert redactor.text("[redacted:another:12345678]") != "[redacted:another:12345678]", "not one of its own"


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_place_in_a_text_is_found_again_without_its_secrets(size: int) -> None:
    redactor = Redactor(r"<\w+>", key=b"k")
    parts = ["first ", OPENAI, " then ", "<name>", " and ", AWS, f"@{'x' * 100} ", GITHUB, " last"]
    whole = "".join(parts)
    stream = Stream(redactor)
    told = "".join(stream.feed(whole[at : at + size]) for at in range(0, len(whole), size)) + stream.finish()
    start = 0
    for part in parts:
        first, last = stream.places.place(start), stream.places.place(start + len(part), is_end=True)
        if part[0] in " f@l":
            assert told[first:last] == part
        elif size == 1000 or part != "<name>":
            assert re.fullmatch(r"\[redacted:\w+:\w{8}\]", told[first:last]), part
            for inside in range(start + 1, start + len(part)):
                assert stream.places.place(inside) == first
                assert stream.places.place(inside, is_end=True) == last
        start += len(part)
    assert stream.places.place(len(whole) + 5) == len(told) + 5


async def test_redaction_can_be_switched_off(tmp_path: Path) -> None:
    async with Runtime(tmp_path / "runs.db", [clerk], redact=False) as runs:
        run = await runs.start(clerk, Notes())
        await run.result(timeout=120)
        assert [one.text for one in await run.transcript()] == [f"I use {OPENAI} for this"]
