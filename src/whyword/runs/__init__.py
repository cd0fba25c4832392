"""Long runs: progress, journals that a run resumes from, and files that are written atomically."""
