"""Statistics that were computed once, kept in Redis or in this process."""
