"""Run what should catch a mutant, in a process of its own: `python -m tests.mutants.run races 0-60`."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.frames import histories
from tests.mutants import evidence_guards, guards
from tests.mutants.evidence_mutants import EVIDENCE_MUTANTS
from tests.mutants.frame_mutants import FRAME_MUTANTS
from tests.mutants.halt_mutants import HALT_MUTANTS
from tests.mutants.mutants import MUTANTS, Mutant
from tests.mutants.redirect_mutants import REDIRECT_MUTANTS
from tests.races.replay import check

import standfast

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "standfast"
ALL = (*MUTANTS, *FRAME_MUTANTS, *HALT_MUTANTS, *EVIDENCE_MUTANTS, *REDIRECT_MUTANTS)
PLAYED: dict[str, Callable[[int], object]] = {"races": check, "frames": histories.check}


def scenario(name: str) -> Callable[[], None]:
    """What a guard holds, tried; it raises when the guard is gone."""
    found: Callable[[], None] = getattr(evidence_guards, name, None) or getattr(guards, name)
    return found


def caught(mutant: Mutant | None, seeds: int, timeout: float) -> tuple[bool, str]:
    """Was it noticed? And by what. Without a mutant: does the source as it is pass?"""
    with tempfile.TemporaryDirectory(prefix="standfast-mutant-") as folder:
        copy = Path(folder, "standfast")
        # Links, also to what is compiled; a file that a mutant changes is its own.
        shutil.copytree(SOURCE, copy, copy_function=os.symlink)
        what, hint = "races", 0
        if mutant is not None:
            what, hint = mutant.caught_by, mutant.hint
            for name, old, new in ((mutant.file, mutant.old, mutant.new), *mutant.also):
                file = copy / name
                text = file.read_text()
                assert old in text, f"mutant {mutant.name!r} does not apply to {name} any more: bring it up to date"
                for linked in (file, *file.parent.glob(f"__pycache__/{file.stem}.*")):
                    linked.unlink()
                file.write_text(text.replace(old, new))
        environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
        program = [sys.executable, "-m", "tests.mutants.run", what, str(hint), str(seeds), str(copy)]
        try:
            done = subprocess.run(
                program, env=environment, cwd=folder, capture_output=True, text=True, timeout=timeout, check=False
            )
        except subprocess.TimeoutExpired:
            return True, "it hangs"
    lines = done.stdout.splitlines() or done.stderr.splitlines()[-1:]
    return done.returncode != 0, lines[-1] if lines else ""


def main(what: str, hint: str, seeds: str, source: str) -> None:
    assert Path(standfast.__file__).parent == Path(source), "the mutant is not what is being tested"
    logging.disable(logging.CRITICAL)  # a mutant says a lot
    # Seeds that bite one mutant bite others: when code moves and a hint is lost, they are the next best.
    known = sorted({m.hint for m in ALL if m.caught_by == what})
    order = [*dict.fromkeys([int(hint), *known, *range(int(seeds))])] if what in PLAYED else [0]
    for seed in order:
        try:
            PLAYED[what](seed) if what in PLAYED else scenario(what)()
        except BaseException as error:  # noqa: BLE001 - red, whatever it is
            print(f"{what} {seed}: {type(error).__name__}: {str(error)[:200]}".replace("\n", " "))
            sys.exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
