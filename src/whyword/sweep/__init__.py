"""Every causal model type of the installed transformers, on small networks: explained, refused, or wrong?"""
