"""`python -m standfast.server` is `standfast serve`."""

from standfast.cli.serve import serve

if __name__ == "__main__":
    serve(prog_name="standfast serve")
