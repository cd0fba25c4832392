"""One short file for each command."""
