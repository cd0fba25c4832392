"""Results: what a caller gets. Each has a document, can be shown and saved, and is read back whole."""
