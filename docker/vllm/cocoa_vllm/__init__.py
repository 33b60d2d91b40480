"""Exact entropies and probe readings among a vLLM request's own top log-probs; see README.md."""


def register() -> None:
    """What vLLM calls in the API server, the engine core and each worker, perhaps twice."""
    from cocoa_vllm import hooks

    hooks.install()
