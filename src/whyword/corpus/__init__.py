"""A file of prompts, explained row by row: on one machine or a cluster, stopped and resumed, read back."""
