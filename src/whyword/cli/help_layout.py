"""How commands are laid out: values are named in words, switches have none, some options take several."""

from typing import Any

from typer.core import TyperCommand, TyperGroup

__all__ = ["OPTIONAL_ADDRESS", "SEVERAL", "Command", "Commands"]

SEVERAL = "FILE…"
"""The value of options that take all words up to the next option: --documents a.txt b.txt."""

OPTIONAL_ADDRESS = "[URL]"
"""The value of options that may stand alone: a word that follows is theirs only if it is a URL."""


class Command(TyperCommand):
    """A command whose help shows no types of Python."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return its arguments and options."""
        return [_leave_out_type(param) for param in super().get_params(ctx)]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words of a command line; options of several values may be followed by all of them.

        An option that is gone is not suggested for one that does not exist.
        """
        several, alone = self._find_options(ctx, SEVERAL), self._find_options(ctx, OPTIONAL_ADDRESS)
        try:
            parsed: list[str] = super().parse_args(
                ctx, _complete_options(_repeat_options(args, several), alone)
            )
        except Exception as error:  # typer and click each have their own class of it
            hidden = {name for param in self.params if getattr(param, "hidden", False) for name in param.opts}
            if close := getattr(error, "possibilities", None):
                error.possibilities = [name for name in close if name not in hidden]  # type: ignore[attr-defined]
            raise
        return parsed

    def _find_options(self, ctx: Any, metavar: str) -> set[str]:
        """Find the options whose value is named so."""
        return {name for param in self.get_params(ctx) if param.metavar == metavar for name in param.opts}


class Commands(TyperGroup):
    """All commands; the name of one may be two words."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options before a command."""
        return [_leave_out_type(param) for param in super().get_params(ctx)]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find a command by its first word, or by its first two."""
        if (both := " ".join(args[:2])) in self.commands:
            args = [both, *args[2:]]
        return super().resolve_command(ctx, args)


def _leave_out_type(param: Any) -> Any:
    """Show no type beside a switch or an argument."""
    if param.param_type_name == "argument":
        param.display_type_rich = lambda ctx: None
    elif getattr(param, "is_flag", False) and param.metavar is None:
        param.metavar = ""
    return param


def _repeat_options(args: list[str], several: set[str]) -> list[str]:
    """Write `--documents a b` as `--documents a --documents b`."""
    repeated: list[str] = []
    current, first = None, True
    for place, word in enumerate(args):
        if word == "--":
            return [*repeated, *args[place:]]
        if word.startswith("-") and len(word) > 1:
            name, joined, _ = word.partition("=")
            current, first = (name if name in several else None), not joined
        elif current is not None:
            repeated += [] if first else [current]
            first = False
        repeated.append(word)
    return repeated


def _complete_options(args: list[str], alone: set[str]) -> list[str]:
    """Write `--server`, where no URL follows, as `--server=`."""
    end = args.index("--") if "--" in args else len(args)
    completed = [
        f"{word}="
        if word in alone and not "".join(args[place + 1 : place + 2]).startswith(("http://", "https://"))
        else word
        for place, word in enumerate(args[:end])
    ]
    return [*completed, *args[end:]]
