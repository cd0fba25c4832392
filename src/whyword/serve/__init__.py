"""A page to look at predictions, and the JSON routes below it. Needs the extra "serve"."""
