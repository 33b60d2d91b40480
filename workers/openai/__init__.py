"""A `Generator` over any OpenAI-compatible server: vLLM above all, and what others have of it."""
