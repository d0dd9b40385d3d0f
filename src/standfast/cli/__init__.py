"""The command line. One file a group of commands; `app.py` puts them together.

Only `main` is imported by the entry point: without click (extra `cli`) it still says its version and
brings the local model, and says for the rest what is missing.
"""

from __future__ import annotations

import importlib.util
import os
import sys

from standfast.cli.codes import code_of_error
from standfast.cli.saying import complain, tell, version
from standfast.errors import StandfastError


def main() -> None:
    """`standfast ...`: ends the process with 0, or with 1 and a line that says what to do, or with 130 after Ctrl-C."""
    try:
        if importlib.util.find_spec("click") is None:
            _without_click(sys.argv[1:])
        else:
            from standfast.cli.app import run  # noqa: PLC0415 - click is an extra

            run()
    except StandfastError as error:
        complain(error)
        sys.exit(code_of_error(error))
    except KeyboardInterrupt:
        complain("stopped")
        sys.exit(130)
    except BrokenPipeError:  # whoever read the answer has heard enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _without_click(words: list[str]) -> None:
    if words == ["--version"]:
        tell(version())
    elif words == ["model", "install"]:
        from standfast.cli.installing import install  # noqa: PLC0415 - knows models, which no other command here needs

        install()
    else:
        complain("this command needs click: pip install 'standfast[cli]'")
        sys.exit(1)
