"""Pure: names of entries in a cache.

Whatever changes what is computed is part of a name; a prompt only by its hash.
"""

import hashlib
import json
from dataclasses import asdict
from typing import Any

from app.scoring.ask import Ask
from app.scoring.plan import Plan
from models.statistics import PROBE_STATISTICS, reads_samples
from workers.protocol import ComparerInfo, GeneratorInfo

FORMAT = 3


def statistics_key(
    plan: Plan,
    ask: Ask,
    generator: GeneratorInfo,
    comparer: ComparerInfo,
    nli: ComparerInfo | None,
) -> str:
    """Name of an ask's statistics.

    The primary estimator, what is returned and the deadline are no part of it, nor which estimators
    read the statistics, nor how samples are drawn where there are none. Without a seed every draw
    has the same name. How many samples are drawn is part of it only where one of them becomes the
    answer: elsewhere a longer draw serves a shorter one (`app.scoring.entries.decode`).

    Args:
        plan: what is computed.
        ask: prompt, sampling, and what it brings.
        generator: that is asked.
        comparer: of the plan's similarity function.
        nli: None where there is no NLI model.
    """
    needed = plan.statistics - plan.returned
    parts: dict[str, Any] = {
        "format": FORMAT,
        "strategy": plan.strategy,
        "statistics": sorted(needed),
        "max_new_tokens": ask.sampling.max_new_tokens,
        "stop": ask.sampling.stop,
    }
    if ask.sampling.max_new_tokens is None:  # as many as fit
        parts["max_context_tokens"] = generator.max_context_tokens
    if ask.has_prompt:
        parts["model"] = generator.identity
        parts["prompt"] = ask.prompt
        if ask.messages is not None:
            parts["messages"] = [[one["role"], one["content"]] for one in ask.messages]
            parts["chat_template_kwargs"] = ask.chat_template_kwargs
    if ask.answer is not None:
        parts["answer"] = asdict(ask.answer)
        parts["answer_token_logprobs"] = ask.answer_token_logprobs
    if ask.samples is not None:
        parts["samples"] = [[one.text, one.token_logprobs] for one in ask.samples]
    elif reads_samples(plan.statistics):
        names = _LAW + (_HOW_MANY if plan.is_sampled else ())
        parts["sampling"] = {name: getattr(ask.sampling, name) for name in names}
    if plan.reads("similarity"):
        parts["similarity"] = comparer.identity
    if "exact_match" in needed:
        parts["rules"] = asdict(comparer.rules)
    if plan.reads("nli") and nli is not None:
        parts["nli"] = nli.identity
    for name in sorted(needed & PROBE_STATISTICS):
        parts[name] = generator.probes[name].sha256
    return f"statistics:{_digest(parts)}"


def text_digest(text: str) -> str:
    """What stands for a text in the names of its pairs."""
    return _digest(text)


def pair_key(identity: str, a: str, b: str) -> str:
    """Name of one ordered pair's scores by one comparer.

    Args:
        identity: of the comparer.
        a: digest of the first text.
        b: digest of the second.
    """
    return f"pair:{_digest([FORMAT, identity, a, b])}"


# Parameters that decide each sample, and those that decide how many there are.
_LAW = ("temperature", "top_k", "top_p", "seed")
_HOW_MANY = ("num_samples", "stop_mass")


def _digest(parts: Any) -> str:
    # orjson knows no integer beyond 64 bits, which a template may be given.
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
