"""Discovery: every sound row of an op that needs no rule, written as the shortest rule."""
