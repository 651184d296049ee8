"""Of whole programs: every strategy of an op, graph problems, and plans of models."""
