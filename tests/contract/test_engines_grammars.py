"""The contract of engines: texts that are held to a grammar, or the reason why none is."""

import json

import pytest

from models.errors import InvalidRequest
from models.grammar.grammars import grammar_of
from tests.contract.generators import asked

pytestmark = pytest.mark.anyio

CHOICES = ["Rome", "Lyon", 7, None]


async def test_texts_follow_the_grammar_or_it_is_refused_with_the_reason(generator):
    request = asked(generator, grammar=grammar_of({"enum": CHOICES}))
    if reason := generator.info.no_grammar:
        with pytest.raises(InvalidRequest) as caught:
            await generator.generate(request)
        assert caught.value.field == "grammar"
        assert reason in caught.value.message
        return
    generation = await generator.generate(request)
    for sequence in (generation.answer, *generation.samples):
        if sequence.finish_reason == "stop":
            assert json.loads(sequence.text) in CHOICES
        else:
            assert sequence.num_written == 12


async def test_the_law_under_a_grammar_is_repeated_by_its_seed(generator):
    if generator.info.no_grammar:
        pytest.skip("follows no grammar")
    request = asked(generator, grammar=grammar_of({"enum": CHOICES}))
    first, second = [await generator.generate(request) for _ in range(2)]

    assert [one.text for one in first.samples] == [one.text for one in second.samples]
    assert first.answer.text == second.answer.text
