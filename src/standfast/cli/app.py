"""`standfast`: the groups of commands, put together."""

from __future__ import annotations

import sys

import click

from standfast.cli.model import model
from standfast.cli.saying import tell, version


def run() -> None:
    """Do what the command line asks; KeyboardInterrupt after Ctrl-C."""
    try:
        code = standfast.main(prog_name="standfast", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        raise KeyboardInterrupt from None
    if isinstance(code, int):  # click's way of saying that a command ended early, as --help does
        sys.exit(code)


def _say_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        tell(version())
        context.exit()


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_say_version, help="Say which.")
def standfast() -> None:
    """Long-running agents that a person can pause, redirect or cancel at any moment."""


standfast.add_command(model)
