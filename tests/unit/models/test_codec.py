"""Generations come back from JSON exactly, to the last bit and the last field."""

import json
from dataclasses import fields, replace

import numpy as np
import pytest

from models.codec import reader, to_json
from models.records import (
    Generation,
    ProbeReading,
    Sequence,
)
from models.warnings import Warned
from tests.same import assert_same

WHOLE = Sequence(
    text=" Paris é\u2028",
    compared_text="Paris é",
    num_tokens=2,
    finish_reason="stop",
    token_ids=(3, 1),
    token_logprobs=np.array([-0.1, -1 / 3]),
    token_entropies=np.array([5e-324, 2.0]),
    token_texts=(" Paris", ""),
)
BARE = Sequence("", "", 0, "given")
REFUSED = Sequence("", "", 0, "server_tired", refusal="No. \u2028")
GENERATION = Generation(
    answer=WHOLE,
    samples=(WHOLE, BARE, REFUSED, replace(BARE, token_logprobs=np.array([]))),
    prompt_tokens=7,
    seed=2**53 - 1,
    model_id="fake",
    revision="1",
    identity="abc",
    queue_s=0.1,
    generate_s=1 / 3,
    warnings=(Warned.ONE_TOKEN_ANSWER,),
    answer_form="blank_led",
    answer_hidden_mean=np.array([[0.1, -3.0]], dtype=np.float32),
    sentence_hidden_means=(((1, 6), np.array([[0.25, 2.0]], dtype=np.float32)),),
    prompt_state=np.array([0.5, -2.0], dtype=np.float32),
    probe_readings={"predicted_dissimilarity": ProbeReading(0.25, 99.5, True)},
    sentence_readings=(((1, 6), ProbeReading(0.5, 3.25, False)),),
)
generation_from_json = reader(Generation)


@pytest.mark.parametrize(
    "generation",
    [GENERATION, Generation(BARE, (), 0, 0, "m", "r")],
    ids=["every field", "as little as there can be"],
)
def test_a_generation_comes_back_with_every_field(generation):
    assert_same(generation_from_json(to_json(generation)), generation)


REQUIRED = {one.name for one in fields(Generation) if one.default is one.default_factory}


@pytest.mark.parametrize("field", sorted(REQUIRED))
def test_a_generation_without_a_field_that_has_no_default_is_none(field):
    values = json.loads(to_json(GENERATION))
    del values[field]
    with pytest.raises(ValueError, match=field):
        generation_from_json(to_json(values))


def test_a_field_that_nobody_knows_is_an_error():
    with pytest.raises(ValueError, match="secret"):
        generation_from_json(to_json(GENERATION)[:-1] + b', "secret": 1}')
