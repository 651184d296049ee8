"""Rules put to the test, and rules found by it."""
