"""How commands are laid out: values are named in words, switches have none, some options take several."""

from typing import Any

from typer.core import TyperCommand, TyperGroup

__all__ = ["SEVERAL", "Command", "Commands"]

SEVERAL = "FILE…"
"""The value of options that take all words up to the next option: --documents a.txt b.txt."""


class Command(TyperCommand):
    """A command whose help shows no types of Python."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return its arguments and options."""
        return [_leave_out_type(param) for param in super().get_params(ctx)]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words of a command line; options of several values may be followed by all of them.

        An option that is gone is not suggested for one that does not exist.
        """
        several = {name for param in self.get_params(ctx) if param.metavar == SEVERAL for name in param.opts}
        try:
            parsed: list[str] = super().parse_args(ctx, _repeat_options(args, several))
        except Exception as error:  # typer and click each have their own class of it
            hidden = {name for param in self.params if getattr(param, "hidden", False) for name in param.opts}
            if close := getattr(error, "possibilities", None):
                error.possibilities = [name for name in close if name not in hidden]  # type: ignore[attr-defined]
            raise
        return parsed


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
