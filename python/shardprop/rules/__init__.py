"""Our own rules, by family."""
