"""Long runs: how far they are, journals that can be resumed, files that are written whole."""
