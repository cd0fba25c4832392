"""From text, ids, chat turns, words and sentence pairs to tokens, and to the question about them."""
