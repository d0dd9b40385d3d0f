"""`python -m standfast.cli` is `standfast`."""

from standfast.cli import main

main()
