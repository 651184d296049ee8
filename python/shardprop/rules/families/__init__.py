"""Our rules by op, one file per family."""
