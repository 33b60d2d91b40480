"""The endpoints that OpenAI's clients know: their bodies to asks, results to their bodies."""
