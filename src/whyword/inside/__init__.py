"""Inside the network: what neurons and heads add, for one prediction or over a dataset."""
