"""The mathematics that all stages share: frozen norms, contributions with their kernel, proofs of sums."""
