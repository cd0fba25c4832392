"""Everything whyword raises on purpose.

    WhywordError
    ├── ModelError    the model cannot be loaded, or is not one that can be explained
    ├── InputError    the prompt, target, foil or an option does not fit the model
    │   └── TooLargeError    more memory is needed than there is
    └── ProofError    the numbers do not add up to the model's own: nothing is shown

A message has two lines: what is wrong, with its values; and what is allowed or what to do.
"""

__all__ = [
    "InputError",
    "ModelError",
    "ProofError",
    "TooLargeError",
    "WhywordError",
    "first_line",
    "is_failure",
]


class WhywordError(Exception):
    """The base of all errors: one line what is wrong, one line what to do."""

    def __init__(self, wrong: str, remedy: str) -> None:
        self.wrong, self.remedy = (_make_printable(" ".join(part.splitlines())) for part in (wrong, remedy))
        super().__init__(f"{self.wrong}\n{self.remedy}")

    def __reduce__(self) -> tuple[type["WhywordError"], tuple[str, str]]:
        return type(self), (self.wrong, self.remedy)


class ModelError(WhywordError):
    """The model cannot be loaded, or is not one that can be explained."""


class InputError(WhywordError):
    """The prompt, target, foil or an option does not fit the model."""


class TooLargeError(InputError):
    """More memory is needed than there is."""


class ProofError(WhywordError):
    """The numbers do not add up to the model's own."""


def _make_printable(text: str) -> str:
    """Write half characters, which a path or a prompt may have, as their numbers."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def is_failure(error: BaseException) -> bool:
    """Tell the failure of a library from an interrupt; Rust panics with an exception outside Exception."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, without a full stop, or the name of the error."""
    if isinstance(error, KeyError):
        return f"{error} is missing"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    said = " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
    return said.rstrip(".:") if len(said) <= 300 else f"{said[:300]}…"
