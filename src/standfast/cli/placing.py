"""The options that say where the runs are. The list of all commands needs them, and nothing that reads runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click


def place_options(**more: Any) -> list[Callable[[Any], Any]]:
    """--store, --url, --token-file, --insecure, --by, --json; `more` goes to click for each."""
    return [
        click.option(
            "--store",
            type=click.Path(path_type=Path, dir_okay=False),
            help="The file the runs are in. [$STANDFAST_STORE, else ./runs.db]",
            **more,
        ),
        click.option(
            "--url", "--server", "url", help="The server they are on, instead of a file. [$STANDFAST_URL]", **more
        ),
        click.option(
            "--token-file",
            type=click.Path(path_type=Path, dir_okay=False),
            help="A file with the server's token. [else $STANDFAST_TOKEN]",
            **more,
        ),
        click.option("--insecure", is_flag=True, help="Send the token over plain http beyond this machine.", **more),
        click.option("--by", help="Who acts. [your user name; a server knows it by the token]", **more),
        click.option("--json", "as_json", is_flag=True, help="Answer in JSON.", **more),
    ]
