"""Rules put to the test: every row against the op itself, on simulated ranks."""
