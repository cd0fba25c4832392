"""How help is laid out: values are named in words, and switches have none."""

from typing import Any

from typer.core import TyperCommand, TyperGroup

__all__ = ["Command", "Commands"]


class Command(TyperCommand):
    """A command whose help shows no types of Python."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return its arguments and options."""
        return [_leave_out_type(param) for param in super().get_params(ctx)]


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
