"""Exact entropies and probe readings among a vLLM request's own top log-probs; see README.md."""
