"""Probes beside an engine: which layers they need, what they read, what a generation gains."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from models.records import GenerationRequest, ProbeReading
from models.warnings import Warned
from tests.results import generation, sequence
from workers.probe_reading import (
    with_inputs_of,
    with_probes_read,
    with_prompt_compared,
    with_readings,
)


class LayerProbe:
    """Reads the mean of what it is given as its value."""

    def __init__(self, layer, token_features=()):
        of_tokens = {"answer_token_logprobs", "answer_token_entropies"}
        self.card = SimpleNamespace(
            layer=layer,
            token_features=token_features,
            statistics_read=of_tokens if token_features else set(),
        )

    def read(self, means):
        return [ProbeReading(float(row.mean()), 50.0, False) for row in means]


PROBES = {
    "predicted_dissimilarity": LayerProbe(3),
    "predicted_high_semantic_entropy": LayerProbe(1),
}
REQUEST = GenerationRequest(
    "Where?", statistics=frozenset({"answer_token_logprobs", *PROBES}), hidden_layers=(3, 2)
)


def asking(*layers):
    """What the engine was asked for."""
    return GenerationRequest("Where?", hidden_layers=layers)


def test_the_engine_is_asked_for_the_layers_of_the_probes_once_and_for_no_probe():
    asked = with_inputs_of(PROBES, REQUEST)
    assert asked.hidden_layers == (3, 2, 1)
    assert asked.statistics == {"answer_token_logprobs"}


def test_each_probe_reads_its_own_layer_wherever_it_lies():
    written = generation(answer_hidden_mean=np.array([[0.3, 0.3], [0.2, 0.2], [0.1, 0.1]]))
    read_ones = with_probes_read(PROBES, asking(3, 2, 1), written).probe_readings
    assert {name: one.value for name, one in read_ones.items()} == {
        "predicted_dissimilarity": 0.3,
        "predicted_high_semantic_entropy": 0.1,
    }


def test_a_probe_of_token_features_gets_the_statistics_that_they_are_made_of():
    probes = {"predicted_dissimilarity": LayerProbe(1, ("sp", "mte", "log_length"))}
    request = GenerationRequest("Where?", statistics=frozenset(probes))
    asked = with_inputs_of(probes, request)
    assert asked.statistics == {"answer_token_logprobs", "answer_token_entropies"}

    answer = replace(
        sequence(" Paris", num_tokens=2),
        token_logprobs=np.array([-0.25, -0.5]),
        token_entropies=np.array([0.125, 0.25]),
    )
    written = generation(answer, answer_hidden_mean=np.array([[0.25]]))
    told = with_probes_read(probes, asking(1), written)
    expected = (0.25 + 0.75 + 0.1875 + np.log(2)) / 4
    assert told.probe_readings["predicted_dissimilarity"].value == pytest.approx(expected)

    kept = with_readings(told, request).answer
    assert (kept.token_logprobs, kept.token_entropies) == (None, None)
    asked_for = replace(request, statistics=frozenset({"answer_token_logprobs"}))
    assert with_readings(told, asked_for).answer.token_logprobs is not None


def test_an_engine_that_gave_no_statistics_of_the_tokens_is_a_fault():
    probes = {"predicted_dissimilarity": LayerProbe(1, ("sp",))}
    answer = replace(sequence(" Paris", num_tokens=1), token_logprobs=None, token_entropies=None)
    with pytest.raises(ValueError, match="no statistics"):
        with_probes_read(
            probes, asking(1), generation(answer, answer_hidden_mean=np.array([[0.25]]))
        )


def test_an_engine_that_gave_no_hidden_states_is_a_fault():
    with pytest.raises(ValueError, match="no hidden states"):
        with_probes_read(PROBES, asking(3, 2, 1), generation(answer_hidden_mean=None))


SENTENCE_PROBE = {"sentence_dissimilarity": LayerProbe(1, ("sp", "mte", "log_length"))}
TWO = replace(
    sequence(" Lima. Peru. No", num_tokens=7),
    token_texts=(" Lima", ".", " Peru", ".", " N", "o", ""),
    token_logprobs=-np.arange(7) / 8,
    token_entropies=np.arange(7) / 4,
)


def test_a_probe_of_sentences_reads_the_state_and_the_tokens_of_each():
    asked = with_inputs_of(SENTENCE_PROBE, GenerationRequest("Where?", hidden_layers=(2,)))
    assert (asked.hidden_layers, asked.by_sentence) == ((2, 1), True)
    assert asked.statistics >= {"answer_token_texts", "answer_token_logprobs"}

    means = {(1, 6): np.array([[9.0], [0.125]]), (7, 12): np.array([[9.0], [0.25]])}
    written = generation(
        TWO, answer_hidden_mean=np.zeros((2, 1)), sentence_hidden_means=tuple(means.items())
    )
    told = with_probes_read(SENTENCE_PROBE, asked, written)

    first, second = dict(told.sentence_readings).values()
    assert dict(told.sentence_readings).keys() == means.keys()  # no state of the last one was kept
    assert first.value == pytest.approx((0.125 + 0.125 + 0.125 + np.log(2)) / 4)
    assert second.value == pytest.approx((0.25 + 0.625 + 0.625 + np.log(2)) / 4)
    together = told.probe_readings["sentence_dissimilarity"]
    assert together.value == pytest.approx((first.value + second.value) / 2)

    kept = with_readings(told, GenerationRequest("Where?", hidden_layers=(2,)))
    assert (kept.sentence_hidden_means, kept.answer.token_texts) == ((), None)
    asked_for = GenerationRequest("Where?", hidden_layers=(2,), by_sentence=True)
    shown = dict(with_readings(told, asked_for).sentence_hidden_means)
    assert shown[1, 6].tolist() == [[9.0]]


def test_of_sentences_the_farthest_decides_and_an_answer_without_any_has_no_reading():
    class Near:
        card = SimpleNamespace(layer=1, token_features=())

        def read(self, rows):
            return [ProbeReading(0.5, float(row[0]), bool(row[0] > 99)) for row in rows]

    probes, asked = {"sentence_dissimilarity": Near()}, asking(1)
    means = {(1, 6): np.array([[99.5]]), (7, 12): np.array([[3.0]])}
    written = generation(
        TWO, answer_hidden_mean=np.zeros((1, 1)), sentence_hidden_means=tuple(means.items())
    )
    told = with_probes_read(probes, asked, written)
    assert told.probe_readings["sentence_dissimilarity"] == ProbeReading(0.5, 99.5, True)
    assert [one.out_of_domain for _, one in told.sentence_readings] == [True, False]
    assert with_readings(told, REQUEST).warnings == ("out_of_domain",)

    empty = with_probes_read(probes, asked, replace(written, sentence_hidden_means=()))
    assert (empty.probe_readings, empty.sentence_readings) == ({}, ())


@pytest.mark.parametrize(("layers", "kept"), [((), None), ((3, 2), [[3.0], [2.0]])])
def test_only_the_layers_that_were_asked_for_are_given_back(layers, kept):
    written = generation(answer_hidden_mean=np.array([[3.0], [2.0], [1.0]]))
    means = with_readings(written, replace(REQUEST, hidden_layers=layers)).answer_hidden_mean
    assert (None if means is None else means.tolist()) == kept


def test_readings_come_with_what_makes_them_doubtful():
    readings = {"predicted_dissimilarity": ProbeReading(0.5, 99.9, True)}
    written = generation(sequence(" Paris", num_tokens=1), warnings=(Warned.REASONING_EXCLUDED,))
    told = with_readings(replace(written, probe_readings=readings), REQUEST)

    assert told.warnings == ("reasoning_excluded", "one_token_answer", "out_of_domain")
    sure = {"predicted_dissimilarity": ProbeReading(0.5, 50.0, False)}
    assert with_readings(generation(probe_readings=sure), REQUEST).warnings == ()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.1, 1.1])
@pytest.mark.parametrize("field", ["value", "distance_percentile"])
def test_a_reading_that_is_no_number_in_its_range_is_left_out(field, value):
    class Broken:
        card = SimpleNamespace(layer=1, token_features=())

        def read(self, means):
            wrong = value * (100 if field == "distance_percentile" else 1)
            return [replace(ProbeReading(0.5, 50.0, False), **{field: wrong})]

    written = generation(answer_hidden_mean=np.array([[0.5, 0.5], [0.25, 0.25]]))
    told = with_probes_read({"broken": Broken(), "sound": LayerProbe(2)}, asking(2, 1), written)
    assert told.probe_readings == {"sound": ProbeReading(0.5, 50.0, False)}


class Far:
    """Finds every prompt foreign whose state is positive."""

    def is_foreign(self, state):
        return bool(state[0] > 0)


@pytest.mark.parametrize(("state", "warnings"), [(1.0, ("prompt_out_of_domain",)), (-1.0, ())])
def test_a_foreign_prompt_is_told_and_its_state_dropped(state, warnings):
    compared = with_prompt_compared(Far(), generation(prompt_state=np.array([state])))
    assert (compared.warnings, compared.prompt_state) == (warnings, None)


def test_a_prompt_without_a_state_is_no_prompt_of_the_domain():
    with pytest.raises(ValueError, match="no state of the prompt"):
        with_prompt_compared(Far(), generation())
