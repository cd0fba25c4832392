"""The background colour of a number in the terminal."""

from rich.style import Style

from .colour import blend, is_dark, seismic

__all__ = ["paint_ground"]


def paint_ground(value: float | None, largest: float) -> Style | None:
    """Return the background of a number; none near zero, so that it suits dark and light terminals."""
    share = (value or 0.0) / (largest or 1.0)
    if abs(share) < 0.02:
        return None
    ground = blend(seismic(0.0), seismic(0.5 if share > 0 else -0.5), 0.15 + 0.85 * abs(share))
    red, green, blue = (round(255 * channel) for channel in ground)
    ink = "#ffffff" if is_dark(ground) else "#000000"
    return Style(color=ink, bgcolor=f"#{red:02x}{green:02x}{blue:02x}")
