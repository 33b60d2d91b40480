"""What probes need of an engine, what they read, and what that adds to a generation."""

from collections.abc import Mapping
from dataclasses import replace

from models.estimators.information import mte, sp
from models.probes.features import STATISTICS_READ, joined
from models.probes.protocol import Probe
from models.ranges import PERCENTILES, PROBABILITIES
from models.records import Array, Generation, GenerationRequest, ProbeReading, Sequence
from models.statistics import PROBE_STATISTICS


def with_inputs_of(probes: Mapping[str, Probe], request: GenerationRequest) -> GenerationRequest:
    """What the engine is asked for: in place of the probes' statistics what they read."""
    if not probes:
        return request
    read_too = STATISTICS_READ if any(p.token_features for p in probes.values()) else frozenset()
    layers = sorted({probe.layer for probe in probes.values()} - set(request.hidden_layers))
    return replace(
        request,
        statistics=(request.statistics - PROBE_STATISTICS) | read_too,
        hidden_layers=(*request.hidden_layers, *layers),
    )


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
        if _is_sound(reading):
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
    layers, means = request.hidden_layers, generation.answer_hidden_mean
    return replace(
        generation,
        answer=_asked_of(generation.answer, request.statistics),
        answer_hidden_mean=means[: len(layers)] if layers and means is not None else None,
        probe_readings=readings,
        warnings=tuple(warnings),
    )


def _is_sound(reading: ProbeReading) -> bool:
    numbers = ((reading.value, PROBABILITIES), (reading.distance_percentile, PERCENTILES))
    return all(low <= number <= high for number, (low, high) in numbers)  # NaN is in no range


def _asked_of(answer: Sequence, statistics: frozenset[str]) -> Sequence:
    """The answer without the arrays that only probes read."""
    return replace(
        answer,
        token_logprobs=answer.token_logprobs if "answer_token_logprobs" in statistics else None,
        token_entropies=answer.token_entropies if "answer_token_entropies" in statistics else None,
    )
