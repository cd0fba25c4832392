"""How help is laid out: values are named in words, and switches have none."""

from typing import Any

from typer.core import TyperCommand, TyperGroup

__all__ = ["Command", "Commands"]


class Command(TyperCommand):
    """A command whose help shows no types of Python."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return its arguments and options."""
        return [_leave_out_type(param) for param in super().get_params(ctx)]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse what was typed; an option that is gone is not suggested for one that does not exist."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:  # typer and click each have their own class of it
            hidden = {name for param in self.params if getattr(param, "hidden", False) for name in param.opts}
            if close := getattr(error, "possibilities", None):
                error.possibilities = [name for name in close if name not in hidden]  # type: ignore[attr-defined]
            raise


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
