"""`python -m standfast.server` is `standfast serve`."""

import sys

import click

from standfast.errors import StandfastError
from standfast.server.command import serve

if __name__ == "__main__":
    try:
        serve(prog_name="standfast serve")
    except StandfastError as error:
        click.echo(f"standfast: {error}", err=True)
        sys.exit(1)
