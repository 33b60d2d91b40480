"""What probes need of an engine, what they read, and what that adds to a generation."""

from collections.abc import Mapping
from dataclasses import replace

from models.estimators.information import mte, sp
from models.probes.domain import PromptDomain
from models.probes.features import STATISTICS_READ, joined
from models.probes.protocol import Probe
from models.ranges import PERCENTILES, PROBABILITIES
from models.records import (
    PROMPT_OUT_OF_DOMAIN,
    Array,
    Generation,
    GenerationRequest,
    ProbeReading,
    Sequence,
)
from models.statistics import PROBE_STATISTICS


def with_inputs_of(probes: Mapping[str, Probe], request: GenerationRequest) -> GenerationRequest:
    """What the engine is asked for: in place of the probes' statistics what they read."""
    layers = {probe.layer for probe in probes.values()} - set(request.hidden_layers)
    statistics = request.statistics - PROBE_STATISTICS
    if any(probe.token_features for probe in probes.values()):
        statistics |= STATISTICS_READ
    hidden_layers = (*request.hidden_layers, *sorted(layers))
    return replace(request, statistics=statistics, hidden_layers=hidden_layers)


def read(
    probes: Mapping[str, Probe], layers: tuple[int, ...], generation: Generation
) -> dict[str, ProbeReading]:
    """What each probe says of a generation.

    Args:
        probes: by the statistic that each predicts.
        layers: that the engine gave the mean hidden states of, in their order.
        generation: with these hidden states, and the statistics of its answer that probes read.

    A reading that is no number, or out of its range, is left out.

    Raises:
        ValueError: it has none.
    """
    means = generation.answer_hidden_mean
    if means is None:
        raise ValueError("the engine gave no hidden states")
    readings = {}
    for name, probe in probes.items():
        features = _features(means[layers.index(probe.layer)], probe, generation.answer)
        reading = probe.read(features[None])[0]
        if is_sound(reading.value, reading.distance_percentile):
            readings[name] = reading
    return readings


def _features(mean: Array, probe: Probe, answer: Sequence) -> Array:
    if not probe.token_features:
        return mean
    if answer.token_logprobs is None or answer.token_entropies is None:
        raise ValueError("the engine gave no statistics of the answer's tokens")
    return joined(
        mean,
        probe.token_features,
        sp=sp(answer.token_logprobs),
        mte=mte(answer.token_entropies),
        num_tokens=answer.num_tokens,
    )


def with_readings(
    generation: Generation, readings: Mapping[str, ProbeReading], request: GenerationRequest
) -> Generation:
    """With what the probes say, and of what they read only what was asked for.

    A one-token answer has no step of its own: its probe reads the prompt's last state.
    """
    warnings = list(generation.warnings)
    if generation.answer.num_tokens == 1:
        warnings.append("one_token_answer")
    if any(reading.out_of_domain for reading in readings.values()):
        warnings.append("out_of_domain")
    means, num_layers = generation.answer_hidden_mean, len(request.hidden_layers)
    if means is not None:
        means = means[:num_layers] if num_layers else None
    answer = generation.answer
    if "answer_token_logprobs" not in request.statistics:
        answer = replace(answer, token_logprobs=None)
    if "answer_token_entropies" not in request.statistics:
        answer = replace(answer, token_entropies=None)
    return replace(
        generation,
        answer=answer,
        answer_hidden_mean=means,
        probe_readings=readings,
        warnings=tuple(warnings),
    )


def with_prompt_compared(domain: PromptDomain, generation: Generation) -> Generation:
    """With a warning where the prompt is unlike those of the calibration, and without its state.

    Raises:
        ValueError: the generation has none.
    """
    if generation.prompt_state is None:
        raise ValueError("the engine gave no state of the prompt")
    warnings = generation.warnings
    if domain.is_foreign(generation.prompt_state):
        warnings = (*warnings, PROMPT_OUT_OF_DOMAIN)
    return replace(generation, warnings=warnings, prompt_state=None)


def is_sound(value: float, distance_percentile: float) -> bool:
    """Whether both numbers of a reading lie in their ranges, which NaN does not."""
    (low, high), (least, most) = PROBABILITIES, PERCENTILES
    return low <= value <= high and least <= distance_percentile <= most
