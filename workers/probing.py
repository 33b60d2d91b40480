"""What probes need of an engine, what they read, and what that adds to a generation."""

from collections.abc import Mapping
from dataclasses import replace

from models.probes.protocol import Probe
from models.ranges import PERCENTILES, PROBABILITIES
from models.records import Generation, GenerationRequest, ProbeReading
from models.statistics import PROBE_STATISTICS


def with_layers_of(probes: Mapping[str, Probe], request: GenerationRequest) -> GenerationRequest:
    """What the engine is asked for: in place of the probes' statistics the layers they read."""
    if not probes:
        return request
    layers = sorted({probe.layer for probe in probes.values()} - set(request.hidden_layers))
    return replace(
        request,
        statistics=request.statistics - PROBE_STATISTICS,
        hidden_layers=(*request.hidden_layers, *layers),
    )


def read(
    probes: Mapping[str, Probe], layers: tuple[int, ...], generation: Generation
) -> dict[str, ProbeReading]:
    """What each probe says of a generation.

    Args:
        probes: by the statistic that each predicts.
        layers: that the engine gave the mean hidden states of, in their order.
        generation: with these hidden states.

    A reading that is no number, or out of its range, is left out.

    Raises:
        ValueError: it has none.
    """
    means = generation.answer_hidden_mean
    if means is None:
        raise ValueError("the engine gave no hidden states")
    readings = {}
    for name, probe in probes.items():
        reading = probe.read(means[[layers.index(probe.layer)]])[0]
        if _is_sound(reading):
            readings[name] = reading
    return readings


def with_readings(
    generation: Generation, readings: Mapping[str, ProbeReading], layers: tuple[int, ...]
) -> Generation:
    """With what the probes say, and of the hidden states only the layers that were asked for.

    A one-token answer has no step of its own: its probe reads the prompt's last state.
    """
    warnings = list(generation.warnings)
    if generation.answer.num_tokens == 1:
        warnings.append("one_token_answer")
    if any(reading.out_of_domain for reading in readings.values()):
        warnings.append("out_of_domain")
    means = generation.answer_hidden_mean
    return replace(
        generation,
        answer_hidden_mean=means[: len(layers)] if layers and means is not None else None,
        probe_readings=readings,
        warnings=tuple(warnings),
    )


def _is_sound(reading: ProbeReading) -> bool:
    numbers = ((reading.value, PROBABILITIES), (reading.distance_percentile, PERCENTILES))
    return all(low <= number <= high for number, (low, high) in numbers)  # NaN is in no range
