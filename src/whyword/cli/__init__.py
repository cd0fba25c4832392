"""The command `whyword`: thin, without maths. torch is imported by the commands that need it, not here."""

from .application import application, main

__all__ = ["application", "main"]
