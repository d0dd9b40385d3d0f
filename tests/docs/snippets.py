"""Runs the Python snippets of a page as a reader would: as one file, with what the page says is to be installed.

`print(...)  # -> text` is a promise: the block must print exactly these texts. A block that begins with `# name.py`
is a file for the reader to save: it is written down beside the others, not run.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
SECONDS = 300  # a hang guard
MARK = "@@@ block "
CONTINUES = "# continues the program above\n"

_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (\w+\.py)\n")
_PROMISED = re.compile(r"^ *print\(.*\)  +# -> (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Snippet:
    line: int
    code: str

    @property
    def file(self) -> str | None:
        named = _FILE.match(self.code)
        return named.group(1) if named else None

    @property
    def is_program(self) -> bool:
        """Does it look complete? Then a reader copies it alone: it imports from standfast and runs itself."""
        complete = "from standfast" in self.code and "\nasyncio.run(" in self.code
        return complete and not self.code.startswith(CONTINUES)

    @property
    def promised(self) -> list[str]:
        return _PROMISED.findall(self.code)


def snippets_of(page: Path) -> list[Snippet]:
    text = page.read_text(encoding="utf-8")
    return [Snippet(text.count("\n", 0, found.start(1)) + 1, found.group(1)) for found in _BLOCK.finditer(text)]


def save_files(page: Path, folder: Path) -> None:
    for snippet in snippets_of(page):
        if snippet.file is not None:
            (folder / snippet.file).write_text(snippet.code, encoding="utf-8")


def program_of(page: Path) -> str:
    """All blocks of a page below each other, at their own lines, so that tracebacks name the line of the page."""
    lines = [""] * (page.read_text(encoding="utf-8").count("\n") + 1)
    for snippet in snippets_of(page):
        if snippet.file is None:
            code = snippet.code.splitlines()
            lines[snippet.line - 1 : snippet.line - 1 + len(code)] = code
            lines[snippet.line - 2] = f"print({MARK + str(snippet.line)!r}, flush=True)"  # instead of the fence
    return "\n".join(lines) + "\n"


def run_page(page: Path, folder: Path, *options: str) -> int:
    """Run every snippet of the page; returns how many there are."""
    snippets = [snippet for snippet in snippets_of(page) if snippet.file is None]
    save_files(page, folder)
    (folder / "sample.py").write_text(program_of(page), encoding="utf-8")
    argv = [sys.executable, *(options or ("sample.py",))]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, f"{page.name}: {done.stderr}"
    said: dict[int, list[str]] = {}
    for line in done.stdout.splitlines():
        if line.startswith(MARK):
            said[int(line.removeprefix(MARK))] = []
        elif said:
            said[max(said)].append(line)
    for snippet in snippets:
        if snippet.promised and said[snippet.line] != snippet.promised:
            text = f"promises {snippet.promised}, but prints {said[snippet.line]}"
            raise AssertionError(f"{page.name}:{snippet.line} {text}")
    return len(snippets)
