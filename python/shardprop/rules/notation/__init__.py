"""Rules in the compact notation, and the schema of the op that one is bound to."""
