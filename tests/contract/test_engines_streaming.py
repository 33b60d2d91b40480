"""The contract of engines: where texts end, and what is told of them token by token."""

import pytest

from models.records import GivenAnswer
from tests.contract.generators import REQUEST, asked, needs, needs_of_server, samples_of, values_of

pytestmark = pytest.mark.anyio


async def test_max_new_tokens_cuts_and_says_so(generator):
    whole = (await generator.generate(asked(generator))).answer
    cut = (await generator.generate(asked(generator, sampling={"max_new_tokens": 2}))).answer

    assert cut.num_written == 2
    assert whole.text.startswith(cut.text)
    assert cut.finish_reason == ("length" if whole.num_written > 2 else "stop")


async def test_a_stop_string_ends_the_text_and_its_tokens_count(generator):
    whole = (await generator.generate(asked(generator))).answer
    stop = whole.text[2:4]
    generation = await generator.generate(asked(generator, sampling={"stop": (stop,)}))
    stopped = generation.answer

    assert stopped.text == whole.text[: whole.text.index(stop)]
    assert stopped.finish_reason == "stop"
    assert 1 <= stopped.num_tokens <= whole.num_tokens
    if whole.token_ids is not None:
        assert stopped.token_ids == whole.token_ids[: stopped.num_tokens]
    if stopped.token_logprobs is not None:
        assert len(stopped.token_logprobs) == stopped.num_tokens
    assert all(stop not in sample.text for sample in generation.samples)


@pytest.mark.parametrize("stop", [(), ("is", "\n")], ids=["to the end", "with stop strings"])
@pytest.mark.parametrize("temperature", [0.0, 0.9], ids=["greedy", "drawn"])
@pytest.mark.parametrize(
    "statistics",
    [REQUEST.statistics, frozenset({"sample_texts"})],
    ids=["with statistics", "without"],
)
async def test_every_token_of_the_answer_is_told_once_with_its_statistics(
    generator, stop, temperature, statistics
):
    tokens = []
    law = {"stop": stop, "answer_temperature": temperature}
    request = asked(generator, sampling=law, statistics=statistics)
    generation = await generator.generate(request, tokens.append)
    told = generation.answer

    assert "".join(token.text for token in tokens) == told.text
    thoughts = "".join(token.reasoning or "" for token in tokens)
    assert thoughts.strip() == (told.reasoning.text if told.reasoning else "")
    tokens = [token for token in tokens if token.reasoning is None]
    if told.token_ids is None and told.token_logprobs is None:
        needs_of_server(
            generator, token_ids=(True,)
        )  # for who does not tell tokens, they are guessed
    assert len(tokens) == told.num_tokens
    logprobs = [token.logprob for token in tokens]
    entropies = [token.entropy for token in tokens]
    assert logprobs == values_of(told.token_logprobs, told.num_tokens)
    assert entropies == values_of(told.token_entropies, told.num_tokens)


async def test_a_given_answer_is_told_too(generator):
    needs_of_server(generator, scoring_of_given_answers=(True,))
    tokens = []
    request = asked(generator, answer=GivenAnswer(" It is Rome."))
    generation = await generator.generate(request, tokens.append)

    assert "".join(token.text for token in tokens) == " It is Rome."
    assert len(tokens) == generation.answer.num_tokens


async def test_whoever_listens_changes_nothing(generator):
    listened = await generator.generate(asked(generator), [].append)
    alone = await generator.generate(asked(generator))

    assert listened.answer.text == alone.answer.text
    assert samples_of(listened) == samples_of(alone)


async def test_token_texts_join_to_the_answer(generator):
    needs(generator, "answer_token_texts")
    request = asked(generator, statistics=frozenset({"answer_token_texts", "sample_texts"}))
    generation = await generator.generate(request)

    assert "".join(generation.answer.token_texts) == generation.answer.text
    assert all(sample.token_texts is None for sample in generation.samples)
