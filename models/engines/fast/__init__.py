"""A pass of our own over decoder-only models: what Transformers computes, in fewer operations."""
