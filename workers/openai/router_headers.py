"""What a router of Kubernetes' Gateway API is told of a call, by its inference extension. Pure.

A header of llm-d and of the extension's endpoint pickers from 0.8 on.
"""

from collections.abc import Mapping

from workers.config import OpenAIServers

# Whose calls share a queue.
FAIRNESS = "x-llm-d-inference-fairness-id"


def router_headers(servers: OpenAIServers, tenant: str) -> Mapping[str, str]:
    """Headers of every call: whose it is, where a router is to know."""
    if servers.routing != "upstream" or not tenant:
        return {}
    return {FAIRNESS: tenant}
