"""What somebody sends who means no good: values, texts, ids, bodies, headers."""

from __future__ import annotations

import gzip
import json
from typing import Any

from hypothesis import strategies as st

HUGE = "@@a number of 5000 digits@@"  # put into the JSON text: Python itself refuses to write it
TEXTS = [
    "",
    " ",
    "\x00",
    "a\x00b",
    "\n",
    "\ud800",  # half of a character: JSON can write it, no store should keep it
    "x\udfff",
    "\u202eevil",
    "\U0001d518",
    "e\u0301" * 50,
    "../../etc/passwd",
    "..",
    "%2e%2e%2f",
    "'; DROP TABLE runs; --",
    "<script>alert(1)</script>",
    "${jndi:ldap://x}",
    "{{7*7}}",
    "a" * 201,
    "a" * 3_000,
    "-1",
    "NaN",
    "1e999",
    "9" * 5000,
    "\u0663\u0662",  # digits, but not ours
    "\u00b2",
]
NUMBERS = [0, -1, 1, 2**31, 2**53, -(2**53), 2**63 - 1, 2**63, 2**64, -(2**64), 10**400, 1e308, -1e308, 5e-324, 0.5]
STRANGE = [float("nan"), float("inf"), float("-inf"), HUGE]
ODD = [None, True, False, [], {}, [[]], [None], {"": ""}, {"a": {"b": 1}}, {"__proto__": {"x": 1}}, ["x"] * 500]


def mostly(usual: st.SearchStrategy[Any], seldom: st.SearchStrategy[Any], times: int = 3) -> st.SearchStrategy[Any]:
    """So many times as often as not; `a | a | b` is `a | b`, with every branch of b as likely as all of a."""
    return st.sampled_from([usual] * times + [seldom]).flatmap(lambda chosen: chosen)


def _nested(depth: int, *, of_lists: bool) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value] if of_lists else {"a": value}
    return value


DEEP = [_nested(depth, of_lists=lists) for depth in (58, 61, 150) for lists in (True, False)]

values: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(TEXTS),
    st.sampled_from(NUMBERS),
    st.sampled_from(ODD),
    st.sampled_from([*DEEP, *STRANGE]),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        max_leaves=6,
    ),
)
texts: st.SearchStrategy[str] = st.sampled_from(TEXTS) | st.text(max_size=30)


def written(value: Any) -> bytes:
    """As JSON, also what is none."""
    return json.dumps(value).replace(json.dumps(HUGE), "9" * 5000).encode()


def _twice(body: bytes) -> bytes:
    """The same names a second time, with other values."""
    return body[:-1] + b"," + body[1:] if body.startswith(b"{") and len(body) > 2 else body + body


BROKEN = [
    lambda body: body,
    lambda body: body[: len(body) // 2],
    lambda body: body + b"}",
    lambda body: b"\xef\xbb\xbf" + body,
    lambda body: body.decode().encode("utf-16"),
    gzip.compress,
    lambda body: b"\xff\xfe\x00" + body,
    lambda body: b"[" * 100_000,
    lambda body: b'{"a":' * 50_000,
    _twice,
    lambda body: b"",
    lambda body: b"null",
    lambda body: b'"text"',
    lambda body: b"a=1&b=2",
]
"""What becomes of a body on the way; the first leaves it as it is."""
bodies = st.sampled_from([BROKEN[0]] * 12 + BROKEN)
KINDS = ["application/json"] * 6 + [
    "application/json; charset=utf-16",
    "text/plain",
    "multipart/form-data; boundary=x",
    "application/x-www-form-urlencoded",
    "",
    "application/json" * 500,
    "\xe9/\xff",
]
HEADERS = [
    {},
    {},
    {},
    {"Content-Encoding": "gzip"},
    {"Idempotency-Key": ""},
    {"Idempotency-Key": "k" * 201},
    {"Idempotency-Key": "\xe9\xff"},
    {"Last-Event-ID": "9" * 5000},
    {"Last-Event-ID": "-1"},
    {"Last-Event-ID": "\xb2"},
    {"Last-Event-ID": "9007199254740991"},
    {"Last-Event-ID": "9007199254740992"},
    {"Origin": "https://evil.example"},
    {"Origin": "http://[::1"},
    {"Origin": "null"},
    {"Host": "evil.example"},
    {"Host": "[::1"},
    {"Host": "\xff"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Accept": "text/html"},
    {"Cookie": "standfast_0=\xff; a; =; ;;" * 50},
    {"Cookie": "standfast=" + "x" * 4000},
    {"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Host": "evil.example"},
    {"Range": "bytes=0-1"},
    {"Expect": "100-continue"},
    {"X-Long": "x" * 10_000},
]
kinds = st.sampled_from(KINDS)
headers = st.sampled_from(HEADERS)
NAMES = ["after", "limit", "status", "agent", "label", "needs", "text", "before", "step", "run", "lifted", "token", "x"]
queries = st.one_of(
    st.just([]),
    st.lists(st.tuples(st.sampled_from(NAMES), texts | st.integers().map(str)), max_size=3),
    st.sampled_from(
        [[("after", "9" * 5000)], [("limit", "1001")], [("label", ",".join(f"{n}:b" for n in range(2000)))]]
    ),
)
