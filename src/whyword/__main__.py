"""python -m whyword: the command."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command; Ctrl-C while it is imported is not an error either."""
    try:
        from .cli import main as run
    except KeyboardInterrupt:
        print("Stopped: nothing was kept.", file=sys.stderr)
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
