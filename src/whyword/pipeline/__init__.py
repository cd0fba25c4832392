"""The pipeline in one call: load a model, explain one prompt, many prompts or a translation."""
