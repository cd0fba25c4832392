"""Errors of workers on a Ray cluster: ours are raised as they are, not as what Ray wraps them in."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import InputError, WhywordError, first_line

__all__ = ["explain_connection", "forgiving_deaths", "telling_own", "unwrapping"]


def explain_connection(error: BaseException, where: str) -> InputError:
    """Explain why a cluster cannot be connected to: it is not there, or it wants a token."""
    if any("authentication token" in str(each).lower() for each in _list_causes(error)):
        return InputError(
            f"The Ray cluster at {where} wants a token that it is not given.",
            "Set RAY_AUTH_MODE=token, and put the cluster's token into ~/.ray/auth_token on this machine.",
        )
    return InputError(
        f"There is no Ray cluster at {where}: {first_line(error)}.",
        "Start one with `ray start --head`, name its HOST:PORT, or leave the address out.",
    )


@contextmanager
def forgiving_deaths(ray: Any) -> Iterator[None]:
    """Go on where an actor died, unless it died of an error of ours: a model that is not on its node."""
    try:
        yield
    except ray.exceptions.RayActorError as error:
        if _find_own(error) is not None:
            raise


@contextmanager
def telling_own() -> Iterator[None]:
    """Make what a worker cannot begin for an error of ours: another would only be tried again."""
    try:
        yield
    except WhywordError:
        raise
    except Exception as error:
        raise InputError(
            f"A worker cannot begin: {type(error).__name__}: {first_line(error)}.",
            "Give the model by a name or path that is there on every node, with the same packages.",
        ) from error


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
    own = [each for each in _list_causes(error) if isinstance(each, WhywordError)]
    return own[0] if own else _read_text(str(error))


def _list_causes(error: BaseException | None) -> list[BaseException]:
    """List an error and what it was raised from, each once."""
    found: list[BaseException] = []
    waiting = [error]
    while waiting:
        each = waiting.pop()
        if each is None or any(each is other for other in found):
            continue
        found.append(each)
        waiting += [each.__cause__, each.__context__, getattr(each, "cause", None)]
    return found


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
