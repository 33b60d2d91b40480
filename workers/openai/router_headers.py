"""What a router of Kubernetes' Gateway API is told of a call, by its inference extension. Pure.

Headers of llm-d and of the extension's endpoint pickers from 0.8 on.
"""

from collections.abc import Mapping

from workers.config import OpenAIServers

# Whose calls share a queue, and how urgent a call is: the name of an `InferenceObjective`.
FAIRNESS, OBJECTIVE = "x-llm-d-inference-fairness-id", "x-llm-d-inference-objective"


def of_all(servers: OpenAIServers, tenant: str) -> Mapping[str, str]:
    """Headers of every call: whose it is, where a router is to know."""
    if servers.routing != "upstream" or not tenant:
        return {}
    return {FAIRNESS: tenant}


def of_samples(servers: OpenAIServers) -> Mapping[str, str]:
    """Further headers of samples, which can wait where an answer cannot."""
    if servers.routing != "upstream" or not servers.samples_objective:
        return {}
    return {OBJECTIVE: servers.samples_objective}
