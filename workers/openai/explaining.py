"""Pure: what a server's generation lacks and why, and what to know of the rest."""

from dataclasses import replace

from models.records import Generation, GenerationRequest
from models.statistics import ANSWER_STATISTICS, SAMPLE_STATISTICS, STATISTICS
from workers.openai.found import OpenAIServer

# Why a sequence lacks what was wanted of it, by its field.
_MISSING = {
    "token_logprobs": "the server told no log-probs",
    "token_entropies": "the server told no entropy of a token",
    "token_texts": "the server's texts of tokens do not join to the answer",
}
_NOT_APART = "the server does not tell the tokens of the answer from those of its reasoning"
SCALED = "the server's log-probs are raw at temperature 1 only"


def explained(generation: Generation, request: GenerationRequest, can: OpenAIServer) -> Generation:
    """The generation without what is not what was wanted, and with the reasons and warnings.

    Args:
        generation: with the warnings and reasons that are known so far.
        request: that it answers.
        can: what the server can.
    """
    sampling, samples = request.sampling, generation.samples
    readings, absent = generation.probe_readings, dict(generation.absent)
    warnings = {
        "temperature_not_heeded": samples and _is_fixed(request, can),
        "top_k_not_heeded": samples and sampling.top_k and can.heeds("top_k") is False,
        "seed_not_heeded": samples and sampling.seed is not None and can.heeds("seed") is False,
        "one_token_answer": readings and generation.answer.num_tokens == 1,
        "out_of_domain": any(one.out_of_domain for one in readings.values()),
    }
    warned = [*generation.warnings, *(code for code, applies in warnings.items() if applies)]
    is_raw = can.tells_raw_samples(sampling.temperature)
    if "sample_token_logprobs" in request.statistics and not is_raw:
        samples = tuple(replace(sample, token_logprobs=None) for sample in samples)
        absent["sample_token_logprobs"] = SCALED
    if generation.answer.reasoning is not None:
        # Probes, and bounds of entropies, are read over all that the server wrote.
        absent |= dict.fromkeys(readings, _NOT_APART)
        generation = replace(generation, probe_readings={}, mte_bounds=None)
    written = tuple(one for one in samples if not one.is_withheld)
    for name in request.statistics & (ANSWER_STATISTICS | SAMPLE_STATISTICS):
        row = STATISTICS[name]
        sequences = (generation.answer,) if row.source == "answer" else written
        if any(getattr(one, row.field or "") is None for one in sequences):
            reason = _MISSING.get(row.field or "", "")
            if any(one.reasoning is not None for one in sequences):
                reason = _NOT_APART
            absent.setdefault(name, reason)
    return replace(generation, samples=samples, absent=absent, warnings=tuple(warned))


def _is_fixed(request: GenerationRequest, can: OpenAIServer) -> bool:
    """Whether samples were wanted of another law than the only one that the server has."""
    for name in ("temperature", "top_p"):
        if getattr(request.sampling, name) != 1.0 and not can.tongue.dialect.takes(name):
            return True
    return False
