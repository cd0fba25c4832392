"""The JSON document that every view shares: its kinds, and what is said with each."""
