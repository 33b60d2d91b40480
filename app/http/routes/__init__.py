"""Our own endpoints, and those of operators."""
