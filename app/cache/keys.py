"""Pure: names of entries.

Whatever changes what is computed is part of a name; a prompt only by its hash.
"""

import hashlib
import json
import secrets
from collections.abc import Mapping
from typing import Any

from app.cache.entries import FORMAT
from app.planning import NLI_STATISTICS, SIMILARITY_STATISTICS, Plan, reads_samples
from app.schemas import GenerateRequest, ScoreRequest
from app.settings import Settings
from models.records import PROBE_STATISTICS, Pair
from models.similarity.protocol import PairModel
from workers.build import Workers

# Stands for the revision of weights that have none: their entries serve this process only.
_THIS_PROCESS = secrets.token_hex(8)


def statistics_key(
    plan: Plan,
    request: GenerateRequest | ScoreRequest,
    workers: Workers,
    identities: Mapping[str, str],
) -> str:
    """Name of a request's statistics.

    `estimator`, `return_*`, `timeout_s` are no part of it, nor which estimators read the
    statistics, nor how samples are drawn where there are none. Without a seed every draw has the
    same name.

    Args:
        plan: what is computed.
        request: prompt, sampling, and what a client brings.
        workers: whose weights speak.
        identities: of `model_identities`.
    """
    needed = plan.statistics - plan.returned
    parts: dict[str, Any] = {
        "format": FORMAT,
        "model": identities["generation"],
        "prompt": request.prompt,
        "messages": None
        if request.messages is None
        else [[m.role, m.content] for m in request.messages],
        "chat_template_kwargs": request.chat_template_kwargs,
        "max_new_tokens": request.max_new_tokens,
        "stop": request.stop,
        "strategy": plan.strategy,
        "statistics": sorted(needed),
    }
    if isinstance(request, ScoreRequest):
        parts |= {"answer": request.answer, "append_eos": request.append_eos}
        parts["samples"] = [[s.text, s.token_logprobs] for s in request.samples or ()]
    if reads_samples(plan.statistics) and not parts.get("samples"):
        sampling = ("num_samples", "temperature", "top_k", "top_p", "seed")
        parts |= {name: getattr(request, name) for name in sampling}
    if needed & SIMILARITY_STATISTICS:
        parts["similarity"] = identities[
            f"similarity-{plan.similarity or workers.default_similarity}"
        ]
    if "exact_match" in needed:
        parts["rules"] = repr(
            workers.similarity[plan.similarity or workers.default_similarity].rules
        )
    if needed & NLI_STATISTICS:
        parts["nli"] = identities["nli"]
    if needed & PROBE_STATISTICS:
        parts["probes"] = workers.generation.probe_sha256
    return f"statistics:{_digest(parts)}"


def pair_key(identity: str, pair: Pair) -> str:
    """Name of one ordered pair's scores by one pair model."""
    return f"pair:{_digest([FORMAT, identity, *pair])}"


def model_identities(settings: Settings, workers: Workers) -> dict[str, str]:
    """What makes each model's numbers what they are: weights, precision, flags; by worker name."""
    engine, generation, similarity, nli = (
        workers.generation.engine,
        settings.generation,
        settings.similarity,
        settings.nli,
    )
    identities = {
        "generation": _digest(
            [generation.engine, engine.model_id, engine.revision or _THIS_PROCESS, engine.dtype]
        )
    }
    for name, worker in workers.similarity.items():
        flags = [name, similarity.dtype, nli.dtype, nli.similarity, repr(worker.rules)]
        identities[f"similarity-{name}"] = _identity(worker.model, flags)
    if workers.nli is not None:
        identities["nli"] = _identity(workers.nli.model, [nli.dtype, repr(workers.nli.rules)])
    return identities


def _identity(model: PairModel, flags: list[str]) -> str:
    return _digest(
        [
            model.model_id,
            model.revision or _THIS_PROCESS,
            model.max_length,
            list(model.labels),
            *flags,
        ]
    )


def _digest(parts: Any) -> str:
    # orjson knows no integer beyond 64 bits, which a template may be given.
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
