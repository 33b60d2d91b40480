"""The core behind every door: asks are planned, computed, stored and scored.

Neither FastAPI nor torch; a door is whatever makes an `Ask` and reads a `Result`.
"""
