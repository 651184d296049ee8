"""Which rows of pending sums hold for every call of an op, so that they may be in the rule book."""
