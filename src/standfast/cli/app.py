"""`standfast`: the groups of commands, put together."""

from __future__ import annotations

import sys

import click

from standfast.cli.model import model
from standfast.cli.saying import tell, version
from standfast.errors import Misuse


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


class _Commands(click.Group):
    """`serve` needs an extra: it is imported when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), "serve"])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name != "serve":
            return super().get_command(ctx, cmd_name)
        try:
            from standfast.cli.serve import serve  # noqa: PLC0415 - starlette and uvicorn are an extra
        except ModuleNotFoundError as error:
            if error.name not in ("starlette", "uvicorn", "websockets"):
                raise
            raise Misuse(f"serve needs {error.name}", hint="pip install 'standfast[server]'") from error
        return serve


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_say_version, help="Say which.")
def standfast() -> None:
    """Long-running agents that a person can pause, redirect or cancel at any moment."""


standfast.add_command(model)
