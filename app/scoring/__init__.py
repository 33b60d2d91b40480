"""The core behind every endpoint and command: asks are planned, computed, stored and scored.

Neither FastAPI nor torch; an endpoint or a command is whatever makes an `Ask` and reads a `Result`.
"""
