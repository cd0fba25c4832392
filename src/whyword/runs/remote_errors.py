"""Errors of workers on a Ray cluster: ours are raised as they are, not as what Ray wraps them in."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import InputError, WhywordError, first_line

__all__ = ["forgiving_deaths", "unwrapping"]


@contextmanager
def forgiving_deaths(ray: Any) -> Iterator[None]:
    """Go on where an actor died, unless it died of an error of ours: a model that is not on its node."""
    try:
        yield
    except ray.exceptions.RayActorError as error:
        if _find_own(error) is not None:
            raise


@contextmanager
def unwrapping() -> Iterator[None]:
    """Raise what a worker raised, not what Ray wraps it in."""
    try:
        yield
    except WhywordError:
        raise
    except Exception as error:
        found = _find_own(error)
        if found is not None:
            raise found from None
        raise InputError(
            f"Ray could not go on: {type(error).__name__}: {first_line(error)}.",
            "Run the same command again: what is finished is kept. `ray status` shows the cluster.",
        ) from error


def _find_own(error: BaseException | None) -> WhywordError | None:
    """Find an error of ours inside what Ray raised: as a cause, or as the last lines of its text."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, WhywordError):
            return each
        waiting += [each.__cause__, each.__context__, getattr(each, "cause", None)]
    return _read_text(str(error))


def _read_text(text: str) -> WhywordError | None:
    """Read an error of ours in a remote traceback, which is all that is left of one that an actor died of."""
    from .. import errors

    lines = [line.strip() for line in text.splitlines()]
    for place, line in enumerate(lines[:-1]):
        name, _, wrong = line.partition(": ")
        kind = getattr(errors, name.rpartition(".")[2], None)
        if name.startswith("whyword.errors.") and isinstance(kind, type) and wrong:
            found: WhywordError = kind(wrong, lines[place + 1])
            return found
    return None
