"""Descriptions that installed packages add by entry point: model type = location of its Architecture."""

from importlib.metadata import entry_points

from ..errors import ModelError
from .architecture import Architecture

__all__ = ["GROUP", "find_added"]

GROUP = "whyword.architectures"


def find_added(model_type: str) -> tuple[Architecture, ...] | None:
    """Find the descriptions that a package adds for a model type."""
    for point in entry_points(group=GROUP, name=model_type):
        found = point.load()
        entries = found if isinstance(found, tuple) else (found,)
        if not entries or not all(isinstance(entry, Architecture) for entry in entries):
            raise ModelError(
                f"The entry point {point.name} = {point.value} of {GROUP} is {found!r}.",
                "It must name an Architecture, or a tuple of them.",
            )
        return entries
    return None
