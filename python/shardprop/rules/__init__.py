"""Rules: what the core decides an op by. `rule` has the kinds, `own` finds ours by op."""
