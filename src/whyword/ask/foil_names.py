"""The foils that are not words: the model itself says which token they are."""

__all__ = ["AUTO", "RUNNER_UP"]

AUTO = "auto"
"""The best-ranked rival of the target's kind."""
RUNNER_UP = "runner-up"
"""The likeliest token beside the target."""
