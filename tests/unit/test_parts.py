"""`make test` runs every test once, and is red when anything is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.parts import CLOCKED, COUNTING, ROOT, Part, parts, run

GREEN = "def test_green(): pass\n"
RED = "def test_red(): assert 6 * 7 == 54\n"


def _takes(part: Part, file: Path) -> bool:
    left_out = [ROOT / word.removeprefix("--ignore=") for word in part.chosen if word.startswith("--ignore=")]
    chosen = [ROOT / word for word in part.chosen if not word.startswith("--")]
    return any(file.is_relative_to(p) for p in chosen) and not any(file.is_relative_to(p) for p in left_out)


def test_every_test_file_is_in_exactly_one_part() -> None:
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    assert Path(__file__) in files
    for more in (False, True):
        all_parts = parts(2, more=more, frameworks="python")
        assert [file for file in files if sum(_takes(part, file) for part in all_parts) != 1] == []


def test_what_make_test_leaves_out_is_what_make_test_all_adds() -> None:
    """And it adds the tests whose numbers grow."""
    for part in parts(2):
        assert part.chosen[:2] == ("-m", "not more")
    for part in parts(2, more=True):
        assert part.chosen[:2] == ("-m", "more or soak")


def test_numbers_grow_from_make_test_to_make_test_all_to_make_soak() -> None:
    asked = "from tests.trials import trials; print(trials('few', 'more', 'most'))"
    for name, value in (("", "few"), ("STANDFAST_MORE", "more"), ("STANDFAST_SOAK", "most")):
        told = {key: text for key, text in os.environ.items() if not key.startswith("STANDFAST_")} | {name or "X": "1"}
        assert subprocess.check_output([sys.executable, "-c", asked], text=True, cwd=ROOT, env=told).strip() == value


def test_the_parts_name_only_what_exists() -> None:
    assert [path for path in (*CLOCKED, *COUNTING) if not (ROOT / "tests" / path).exists()] == []


def test_programs_that_tests_start_heed_ctrl_c_also_in_a_background_job() -> None:
    """A shell's background job ignores SIGINT, and so would everything it starts."""
    child = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    test = "import subprocess as s; from tests import conftest; conftest.heed_ctrl_c()\n"
    test += f"s.run([{sys.executable!r}, '-c', {child!r}])"
    ignoring = ["sh", "-c", 'trap "" INT; exec "$@"', "sh"]
    assert subprocess.check_output([*ignoring, sys.executable, "-c", child], text=True) == "False\n"
    assert subprocess.check_output([*ignoring, sys.executable, "-c", test], text=True, cwd=ROOT) == "True\n"


@pytest.fixture(autouse=True)
def _as_from_a_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was asked of the pytest that runs this is not asked of the ones that are started here."""
    for name in [name for name in os.environ if name.startswith("PYTEST_")]:
        monkeypatch.delenv(name)


def _part(folder: Path, name: str, text: str) -> Part:
    file = folder / name / f"test_{name}.py"
    file.parent.mkdir()
    file.write_text(text)
    ours = ("-c", str(ROOT / "pyproject.toml"), "-o", f"cache_dir={folder / 'cache'}")
    return Part(name, sys.executable, 0, 1, (str(file), *ours))


def test_one_red_part_makes_the_whole_red_and_is_shown_in_one_piece(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    green, red = _part(tmp_path, "first", GREEN), _part(tmp_path, "second", RED)
    assert run([green, red], []) == 1
    out = capsys.readouterr().out
    whole = out[out.index("= FAILURES =") : out.index("1 failed in")]
    assert "6 * 7" in whole
    assert {line.partition(" | ")[0] for line in whole.splitlines()[1:-1]} == {"second"}
    assert "green first: 1 passed" in out
    assert "RED   second: 1 failed" in out


SKIPPED = """
import pytest
@pytest.mark.parametrize("n", range(3))
def test_skipped(n): pytest.skip("needs a moon (wait for the night)")
@pytest.mark.skip("needs rain")
def test_other(): pass
def test_green(): pass
"""


@pytest.mark.more
def test_what_was_skipped_is_told_once_a_reason_over_all_parts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    conftest = f"from tests.conftest import pytest_terminal_summary as pytest_terminal_summary  # {ROOT}"
    chosen = [_part(tmp_path, name, SKIPPED) for name in ("first", "second")]
    for part in chosen:
        Path(part.chosen[0]).with_name("conftest.py").write_text(conftest)
    assert run(chosen, []) == 0
    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if "moon" in line or "rain" in line] == [
        "not run: 6 tests: needs a moon (wait for the night)",
        "not run: 2 tests: needs rain",
    ]


@pytest.mark.more
def test_a_choice_that_leaves_a_part_empty_is_not_red_but_one_that_leaves_all_empty_is(tmp_path: Path) -> None:
    both = [_part(tmp_path, "first", GREEN), _part(tmp_path, "second", RED)]
    assert run(both, ["-k", "green"]) == 0
    assert run(both[:1], ["-k", "blue"]) == 1


def test_no_event_loop_is_left_for_the_garbage_collector_to_complain_of_in_a_later_test(tmp_path: Path) -> None:
    text = """
import asyncio, contextlib, gc

def test_that_asks_for_a_loop_where_none_is_running():
    with contextlib.suppress(RuntimeError):
        asyncio.gather()

def test_that_runs_a_loop_of_its_own():
    asyncio.run(asyncio.sleep(0))
    gc.collect()
"""
    part = _part(tmp_path, "loops", text)
    assert run([part], ["-p", "tests.conftest"]) == 0
