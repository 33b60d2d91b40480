"""Statistics that were computed once, kept in Redis or in this process.

Scores and prompts are never stored.
"""
