"""Word alignment: which word of a source each word of its translation comes from, and how good that is."""
