"""One server for full, light and sampled answers at once; what vLLM does, and what it does not."""

import math
from functools import partial

import pytest

from models.probes.card import read_card
from tests.vllm.agreement import Agreement, at_once
from tests.vllm.server import NAME, PROBES, columns, serving

pytestmark = pytest.mark.anyio
MARK, ENTROPY = 0, 1


@pytest.fixture(scope="module")
async def server(anyio_backend, tmp_path_factory):
    folder = tmp_path_factory.mktemp("plugin")
    async with serving(folder, "plugin", "--enforce-eager") as running:
        yield running


async def test_300_answers_are_those_in_process_with_full_light_and_samples_at_once(
    server, testbed
):
    agreement, num_samples = Agreement(), []

    async def ask(case, mode):
        choice = await server.one(case.ids, mode)
        agreement.add(choice, case, light=mode == "light")

    async def sample(case, seed):
        law = {"n": 10, "temperature": 1, "top_k": 50, "top_p": 1, "seed": seed}
        choices = await server.choices(case.ids, logprobs=0, **law)
        for choice in choices:
            assert all(len(top) == 1 for top in choice["logprobs"]["top_logprobs"])
        num_samples.append(len(choices))

    calls = []
    for seed, case in enumerate(testbed):
        calls += [partial(ask, case, "entropy"), partial(sample, case, seed)]
        calls.append(partial(ask, case, "light"))
    await at_once(16, calls)
    print(f"\n{len(testbed)} prompts at concurrency 16: {agreement}")
    assert num_samples == [10] * len(testbed)
    agreement.check()


async def test_the_servers_tokenizer_makes_the_same_prompts(server, testbed):
    for case in testbed:
        body = {"model": NAME, "prompt": case.prompt}
        response = await server.client.post("/tokenize", json=body)
        assert response.json()["tokens"] == case.ids


async def test_who_does_not_opt_in_gets_no_column(server, testbed):
    choice = await server.one(testbed[0].ids, logprobs=5)
    assert all(not column for column in columns(choice))
    assert choice["text"] == testbed[0].expected.answer.text


async def test_log_probs_beyond_the_columns_are_the_likeliest_tokens(server, testbed):
    plain = await server.one(testbed[0].ids, logprobs=3)
    asked = await server.one(testbed[0].ids, "light", logprobs=9)
    for few, more in zip(
        plain["logprobs"]["top_logprobs"], asked["logprobs"]["top_logprobs"], strict=True
    ):
        assert few.items() <= {key: pytest.approx(value) for key, value in more.items()}.items()


async def test_identity_tells_weights_and_probes_that_the_worker_loaded(server):
    choice = await server.one("Which", "identity", logprobs=15, max_tokens=1)
    (found,) = columns(choice)
    cards = [read_card(folder / "card.json") for folder in PROBES]
    digits = "".join(f"{int(found[i]):06x}" for i in range(4, 10))
    assert [found[i] for i in (1, 2, 3)] == [2, 0, 2]
    assert digits == cards[0].revision + "".join(card.sha256[:12] for card in cards)
    for mode in ("entropy", "light"):
        asked = await server.one("Which", mode, max_tokens=3)
        assert {column[MARK] for column in columns(asked)} == {found[MARK]}


@pytest.mark.parametrize(
    ("mode", "logprobs", "words"),
    [
        ("half", 6, "must be one of entropy, identity, light"),
        ("light", 3, "needs logprobs of at least 4"),
        ("entropy", None, "needs logprobs of at least 2"),
    ],
)
async def test_what_cannot_be_answered_is_refused(server, mode, logprobs, words):
    response = await server.post("Which", mode, logprobs=logprobs)
    assert response.status_code == 400
    assert words in response.json()["error"]["message"]


async def test_children_of_one_request_have_entropies_of_their_own(server):
    law = {"n": 4, "temperature": 1, "top_k": 50, "seed": 3}
    choices = await server.choices("Which country is Pirot in?", "entropy", **law)
    entropies = [[column[ENTROPY] for column in columns(choice)] for choice in choices]
    assert len({tuple(one[1:]) for one in entropies}) > 1
    assert [one[0] for one in entropies] == [pytest.approx(entropies[0][0], abs=1e-3)] * 4


async def test_chat_completions_have_columns_too(server):
    body = server.body("", "light") | {
        "messages": [{"role": "user", "content": "Which country is Pirot in?"}],
        "logprobs": True,
        "top_logprobs": 6,
        "max_tokens": 4,
    }
    del body["prompt"]
    response = await server.client.post("/v1/chat/completions", json=body)
    assert response.status_code == 200, response.text
    for token in response.json()["choices"][0]["logprobs"]["content"]:
        values = {top["token"]: top["logprob"] for top in token["top_logprobs"]}
        assert 0 <= values["token_id:2000000002"] <= 1


async def test_the_log_prob_of_eos_is_there_and_its_text_is_not(server, testbed):
    choice = await server.one(testbed[0].ids)
    assert choice["finish_reason"] == "stop"
    assert choice["token_ids"][-1] == 2
    assert len(choice["logprobs"]["token_logprobs"]) == len(choice["token_ids"])
    assert "</s>" not in choice["text"]


async def test_the_token_that_completes_a_stop_string_counts(server, testbed):
    whole = await server.one(testbed[0].ids)
    stop = whole["text"].split()[-1][:3]
    cut = await server.one(testbed[0].ids, stop=[stop])
    count = len(cut["token_ids"])
    assert cut["text"] == whole["text"][: whole["text"].index(stop)]
    assert cut["token_ids"] == whole["token_ids"][:count]
    assert count == len(cut["logprobs"]["token_logprobs"])
    assert await decoded(server, cut["token_ids"]) != cut["text"]
    assert stop in await decoded(server, cut["token_ids"])


async def decoded(server, ids):
    """Text of token ids."""
    response = await server.client.post("/detokenize", json={"model": NAME, "tokens": ids})
    return response.json()["prompt"]


async def test_children_draw_with_seed_and_index_so_that_waves_repeat_one_call(server, testbed):
    law = {"temperature": 1, "top_k": 50, "logprobs": 0}

    async def drawn(n, seed):
        choices = await server.choices(testbed[1].ids, n=n, seed=seed, **law)
        return [choice["token_ids"] for choice in choices]

    whole = await drawn(10, 1000)
    assert await drawn(3, 1000) + await drawn(7, 1003) == whole
    assert len({tuple(ids) for ids in whole}) > 1


async def test_prompt_and_max_tokens_beyond_the_context_are_cut_without_a_word(server, long_cases):
    ids = long_cases[0].ids
    choice = await server.one(ids, max_tokens=512, ignore_eos=True)
    assert choice["finish_reason"] == "length"
    assert len(choice["token_ids"]) == 512 - len(ids)


async def test_ten_samples_share_the_prompts_blocks(server, long_cases):
    ids = long_cases[1].ids[::-1]  # a prompt that was never seen
    blocks = (len(ids) - 1) // 32
    assert blocks
    names = ("vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total")
    before = [await server.metric(name) for name in names]
    await server.choices(ids, n=11, temperature=1, seed=1, max_tokens=2)
    hits, asked = [
        await server.metric(name) - earlier for name, earlier in zip(names, before, strict=True)
    ]
    print(f"\nprefix cache: {hits:.0f} hits of {asked:.0f} tokens asked for by 11 sequences")
    assert asked == 11 * len(ids)
    assert hits == 10 * 32 * blocks


async def test_a_closed_connection_cancels_and_its_sums_are_forgotten(server, testbed):
    body = server.body(testbed[0].ids, "light", max_tokens=480, ignore_eos=True, stream=True)
    async with server.client.stream("POST", "/v1/completions", json=body) as response:
        async for _ in response.aiter_lines():
            break
        await server.until("vllm:num_requests_running", 1)
    await server.until("vllm:num_requests_running", 0)
    agreement = Agreement()
    agreement.add(await server.one(testbed[0].ids, "light"), testbed[0], light=True)
    agreement.check()


async def test_running_readings_are_numbers_at_every_token(server, testbed):
    choice = await server.one(testbed[2].ids, "light")
    for column in columns(choice):
        assert column.keys() == set(range(6))
        assert all(map(math.isfinite, column.values()))
        assert -9999 not in column.values()
