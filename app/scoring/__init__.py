"""The core behind every door: what is asked, planned, computed, remembered and scored.

Neither FastAPI nor torch; a door is whatever makes an `Ask` and reads a `Result`.
"""
