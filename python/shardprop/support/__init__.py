"""What knows nothing of torch: caches, counters, tables on a terminal, input from outside."""
