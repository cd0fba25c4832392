"""Inside the network: what single neurons add, for one prediction or over a dataset."""
