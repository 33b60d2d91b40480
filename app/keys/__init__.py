"""API keys: who may ask, how much, and apart from whom."""
