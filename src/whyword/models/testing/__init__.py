"""Small networks with random weights: for tests, and to try a description without the real weights."""
