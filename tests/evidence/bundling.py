"""Runs worth taking evidence of, and bundles of them that are taken apart, changed and put together again."""

from __future__ import annotations

import asyncio
import json
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic_core import from_json, to_json
from tests.evidence.world import Letters, send
from tests.helpers import eventually
from tests.tripwire.secrets import BANK

from standfast import Done, LLMAgent, Run, Runtime, agent, child, models, say, tool
from standfast.evidence.bundle_check import verify_bundle
from standfast.evidence.bundle_shapes import DOMAIN, MANIFEST, SIGNATURE
from standfast.evidence.keys import Key, load, load_public
from standfast.evidence.notary import Notary, checkpoint_now
from standfast.evidence.report import Report
from standfast.evidence.zip_frame import entry

OPENAI = "sk-" + "proj1234567890abcdefghij"
MARKUP = "<script>alert('x')</script><img src=x onerror=alert(1)>\"'></pre><h1>Not stopped</h1>"
TURNED = "\u202egnp.exe\u202c \u200bzero\x07"
LEAK = f"My instructions are these: {BANK[:200]}"


@tool(effect="read")
async def talk(text: str) -> str:
    """Says a text, and then nothing for long."""
    say(text)
    await asyncio.sleep(60)
    return text


@agent("talker")
async def talker(run: Run[Letters]) -> Done[int] | None:
    """Sends a letter, then talks until somebody stops it."""
    await run.call(send(0))
    run.note(f"the token is {OPENAI}")
    await run.call(talk(f"{MARKUP} {TURNED} with {OPENAI} and more to come"))
    return Done(1)


@agent("parent")
async def parent(run: Run[Letters]) -> Done[int] | None:
    """Has a child that talks."""
    await run.call(child(talker, Letters()))
    return Done(1)


teller: LLMAgent[str] = LLMAgent(
    "teller", model=models.scripted(LEAK + " and so on" * 2000, delay=0.002), instructions=BANK, plan=False
)


@dataclass
class World:
    """A signed store with a run of each kind, and what is needed to check bundles of them."""

    path: Path
    folder: Path = field(init=False)

    def __post_init__(self) -> None:
        self.folder = self.path.parent

    @property
    def key(self) -> Key:
        return load(self.folder / "runs.db.key")

    @property
    def public(self) -> bytes:
        return load_public(self.folder / "runs.db.pub")

    @property
    def anchor(self) -> list[str]:
        return (self.folder / "anchor").read_text().splitlines()

    def verify(self, bundle: Path, *, key: bool = True, anchor: bool = True) -> Report:
        return verify_bundle(bundle, [self.public] if key else (), self.anchor if anchor else None)


async def make_world(folder: Path) -> World:
    """Runs that were stopped in the middle of a sentence: cancelled, paused, forgotten; one with a child."""
    path = folder / "runs.db"
    notary = Notary(anchors=[f"file:{folder / 'anchor'}"])
    async with Runtime(path, [talker, teller, parent], notary=notary) as runs:
        talking = await runs.start(talker, Letters(), id="talking", by="ana", reason=f"with {OPENAI}")
        await said(talking, "more to come")
        checkpoint_now(runs._store, load(folder / "runs.db.key"), "early")  # pyright: ignore[reportPrivateUsage]
        await talking.cancel(by="ana", reason="<b>that</b> is enough", suspicious=True, undo="all", trigger="button")
        await talking.settled(timeout=120)
        telling = await runs.start(teller, "What do you do?", id="telling")
        await said(telling, "MAGPIE-SEVEN, and complaints")
        await telling.pause(by="bob", reason="it talks too much")
        await telling.settled(timeout=120)
        other = await runs.start(talker, Letters(), id="another-customer")
        await said(other, "more to come")
        await other.cancel(by="ana")
        await other.settled(timeout=120)
        family = await runs.start(parent, Letters(), id="smiths")
        await eventually(lambda: runs.list(agent="talker", status="running"))
        small = (await runs.list(agent="talker", status="running"))[0]
        await said(runs.handle(small.id), "more to come")
        await family.cancel(by="ana")
        await family.settled(timeout=120)
        gone = await runs.start(talker, Letters(), id="gone")
        await said(gone, "more to come")
        await gone.cancel(by="ana", reason="a slip")
        await gone.settled(timeout=120)
        assert await runs.forget(gone, by="ana", reason=f"it said {OPENAI}")
    return World(path)


async def take(world: World, run: str, path: Path, **wishes: Any) -> Any:
    """A bundle, taken by a process that has the agents and drives nothing."""
    async with Runtime(world.path, [talker, teller, parent], drive=False) as runs:
        return await runs.handle(run).evidence(path, by="ann", **wishes)


async def said(run: Any, words: str) -> None:
    """Until these words are in the record."""

    async def look() -> bool:
        return any(words in one.text for one in await run.transcript())

    await eventually(look)


# --- bundles in pieces -------------------------------------------------------------------------------


def parts_of(bundle: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(bundle) as file:
        return {name: file.read(name) for name in file.namelist()}


def packed(path: Path, parts: Mapping[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in parts.items():
            file.writestr(entry(name), content)
    return path


def signed(
    parts: Mapping[str, bytes], key: Key, change: Callable[[dict[str, Any]], None] | None = None
) -> dict[str, bytes]:
    """The same parts with a manifest that fits them, signed with this key."""
    manifest: dict[str, Any] = from_json(parts[MANIFEST])
    rest = {name: content for name, content in parts.items() if name not in (MANIFEST, SIGNATURE)}
    manifest["parts"] = [
        {"name": name, "size": len(content), "sha256": sha256(content).hexdigest()} for name, content in rest.items()
    ]
    manifest["about"]["key"] = key.name
    if change is not None:
        change(manifest["about"])
    raw = to_json(manifest)
    signature = json.dumps({"key": key.public.hex(), "signature": key.sign(DOMAIN + raw).hex()}, separators=(",", ":"))
    return {**rest, MANIFEST: raw, SIGNATURE: signature.encode()}


def words(report: Report) -> str:
    return "\n".join(f"{one.verdict} {one.what}: {one.text}" for one in report.findings)
