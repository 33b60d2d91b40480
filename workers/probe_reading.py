"""The inputs of probes from an engine, and their readings, added to a generation."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from models.embedded import PROBES_DIR
from models.errors import ModelNotLoaded
from models.estimators.information import mte, sp
from models.probes.card import joined, read_card
from models.probes.domain import PromptDomain
from models.probes.protocol import Probe, ProbeConfig
from models.records import Array, Generation, GenerationRequest, ProbeReading, Sequence, Span
from models.statistics import SENTENCES_READ, fields_of, supplied_by
from models.units.parts import split
from models.warnings import Warned
from workers.config import variable
from workers.protocol import ProbeInfo

Name = TypeVar("Name", str, Span)


def with_inputs_of(probes: Mapping[str, Probe], request: GenerationRequest) -> GenerationRequest:
    """The request to the engine: in place of the probes' statistics, what they read."""
    layers = {probe.card.layer for probe in probes.values()} - set(request.hidden_layers)
    statistics = request.statistics - supplied_by("probe")
    for probe in probes.values():
        statistics |= probe.card.statistics_read
    if SENTENCES_READ in probes:
        statistics |= {"answer_token_texts"}
    return replace(
        request,
        statistics=statistics,
        hidden_layers=(*request.hidden_layers, *sorted(layers)),
        by_sentence=request.by_sentence or SENTENCES_READ in probes,
    )


def with_probes_read(
    probes: Mapping[str, Probe], request: GenerationRequest, generation: Generation
) -> Generation:
    """The generation with the reading of each probe, beside its inputs.

    Args:
        probes: by the statistic that each predicts.
        request: of `with_inputs_of`.
        generation: with the mean hidden states of its layers, in their order, and the statistics
            of its answer that probes read.

    A reading that is no number, or out of its range, is left out.

    Raises:
        ValueError: it has no hidden states.
    """
    means, answer, layers = generation.answer_hidden_mean, generation.answer, request.hidden_layers
    if means is None:
        raise ValueError("the engine gave no hidden states")
    readings: dict[str, ProbeReading] = {}
    by_span: dict[Span, ProbeReading] = {}
    for name, probe in probes.items():
        layer = layers.index(probe.card.layer)
        if name != SENTENCES_READ:
            readings |= _sound([name], probe.read(_features(means[layer], probe, answer)[None]))
            continue
        means_of = dict(generation.sentence_hidden_means)
        sentences = split(answer, "sentences", tools=request.tools).units
        units = [unit for unit in sentences if unit.spans[0] in means_of]
        rows = []
        for unit in units:
            rows.append(_features(means_of[unit.spans[0]][layer], probe, answer, unit.tokens))
        if rows:
            by_span = _sound([unit.spans[0] for unit in units], probe.read(np.stack(rows)))
        if by_span:
            readings[name] = _together(list(by_span.values()))
    return replace(generation, probe_readings=readings, sentence_readings=tuple(by_span.items()))


def _sound(names: Iterable[Name], readings: Iterable[ProbeReading]) -> dict[Name, ProbeReading]:
    """The readings by name, without those that are no number in their range."""
    pairs = zip(names, readings, strict=True)
    return {name: each for name, each in pairs if each.is_sound}


def _together(readings: list[ProbeReading]) -> ProbeReading:
    """The mean of several values, and the farthest of their distances."""
    return ProbeReading(
        value=sum(reading.value for reading in readings) / len(readings),
        distance_percentile=max(reading.distance_percentile for reading in readings),
        out_of_domain=any(reading.out_of_domain for reading in readings),
    )


def _features(
    mean: Array, probe: Probe, answer: Sequence, tokens: NDArray[np.intp] | None = None
) -> Array:
    """A mean state and a probe's token features, of all tokens of the answer or of some."""
    if not probe.card.token_features:
        return mean
    if answer.token_logprobs is None or answer.token_entropies is None:
        raise ValueError("the engine gave no statistics of the answer's tokens")
    if tokens is None:
        tokens = np.arange(answer.num_tokens)
    return joined(
        mean,
        probe.card.token_features,
        sp=sp(answer.token_logprobs[tokens]),
        mte=mte(answer.token_entropies[tokens]),
        num_tokens=len(tokens),
    )


def with_readings(generation: Generation, request: GenerationRequest) -> Generation:
    """The generation with warnings of probes, and of their inputs only the requested ones.

    A one-token answer has no step of its own: its probe reads the prompt's last state.
    """
    warnings = list(generation.warnings)
    if generation.answer.num_tokens == 1:
        warnings.append(Warned.ONE_TOKEN_ANSWER)
    if any(reading.out_of_domain for reading in generation.probe_readings.values()):
        warnings.append(Warned.OUT_OF_DOMAIN)
    means, num_layers = generation.answer_hidden_mean, len(request.hidden_layers)
    if means is not None:
        means = means[:num_layers] if num_layers else None
    sentence_means: list[tuple[Span, Array]] = []
    if request.by_sentence:
        sentence_means = [(at, mean[:num_layers]) for at, mean in generation.sentence_hidden_means]
    unrequested = fields_of(supplied_by("answer") - request.statistics, "answer")
    without: dict[str, Any] = dict.fromkeys(unrequested)
    return replace(
        generation,
        answer=replace(generation.answer, **without),
        answer_hidden_mean=means,
        sentence_hidden_means=tuple(sentence_means),
        warnings=tuple(warnings),
    )


def with_prompt_compared(domain: PromptDomain, generation: Generation) -> Generation:
    """The generation without its prompt's state; warns of a prompt unlike the calibration's.

    Raises:
        ValueError: the generation has none.
    """
    if generation.prompt_state is None:
        raise ValueError("the engine gave no state of the prompt")
    warnings = generation.warnings
    if domain.is_foreign(generation.prompt_state):
        warnings = (*warnings, Warned.PROMPT_OUT_OF_DOMAIN)
    return replace(generation, warnings=warnings, prompt_state=None)


def probe_infos(config: ProbeConfig) -> Mapping[str, ProbeInfo]:
    """The probes of a deployment by their cards, wherever they are evaluated.

    By the statistic that each predicts; "auto" is the embedded one.

    Raises:
        ModelNotLoaded: a folder holds no card of such a probe.
    """
    probes = {}
    for target, statistic, setting, folder in config.folders():
        if not folder:
            continue
        path = Path(folder)
        if folder == "auto":
            path = PROBES_DIR / target
        try:
            card = read_card(path / "card.json")
        except ModelNotLoaded as error:
            raise ModelNotLoaded(f"{variable(setting)}: {error}") from None
        if card.target != target:
            raise ModelNotLoaded(f"{variable(setting)}: the probe predicts {card.target}")
        probes[statistic] = ProbeInfo.of(card)
    return probes
