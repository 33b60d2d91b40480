"""Bodies of requests: shapes and bounds, and the `Ask` that each one is."""
