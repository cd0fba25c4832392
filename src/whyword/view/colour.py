"""The colour of a number: blue lowers, red raises, white is nothing (the `seismic` scale of the paper)."""

__all__ = ["Colour", "blend", "is_dark", "seismic"]

Colour = tuple[float, float, float]
_STOPS: tuple[Colour, ...] = (
    (0.0, 0.0, 0.3),
    (0.0, 0.0, 1.0),
    (1.0, 1.0, 1.0),
    (1.0, 0.0, 0.0),
    (0.5, 0.0, 0.0),
)


def seismic(share: float) -> Colour:
    """Return red, green and blue (0 to 1) of a number between −1 and 1."""
    place = (min(1.0, max(-1.0, share)) + 1) * (len(_STOPS) - 1) / 2
    below = min(int(place), len(_STOPS) - 2)
    return blend(_STOPS[below], _STOPS[below + 1], place - below)


def blend(one: Colour, other: Colour, share: float) -> Colour:
    """Return the colour that lies some way from one to the other."""
    red, green, blue = (a + (b - a) * share for a, b in zip(one, other, strict=True))
    return red, green, blue


def is_dark(colour: Colour) -> bool:
    """Say whether text on a colour should be white (relative luminance of sRGB, approximately)."""
    red, green, blue = colour
    luminance: float = 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2
    return luminance < 0.25
