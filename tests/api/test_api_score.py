"""`POST /score`: answers that exist already."""

import asyncio
import json

import pytest

from models.estimators import ESTIMATORS
from tests.conftest import until

pytestmark = pytest.mark.anyio

PROMPT = "What is the capital of France?"
SAMPLES = [{"text": "Paris"}, {"text": "It is Paris."}, {"text": "Lyon"}]


async def scored(service, **body):
    response = await service.client.post("/score", json={"max_new_tokens": 64, "seed": 3} | body)
    assert response.status_code == 200, response.text
    return response.json()


async def test_a_given_answer_is_scored_against_samples_drawn_here(service):
    result = await scored(
        service, prompt=PROMPT, answer=" Paris", return_samples=True, return_tokens=True
    )

    assert (result["strategy"], result["text"], result["finish_reason"]) == (
        "given",
        " Paris",
        "given",
    )
    assert result["retokenized"]
    assert (result["samples_source"], result["num_samples"], len(result["samples"])) == (
        "model",
        10,
        10,
    )
    assert result["usage"]["completion_tokens"] == len(result["tokens"]) == 2
    assert result["scores"]["cocoa_ppl"] == pytest.approx(
        result["scores"]["ppl"] * result["scores"]["consistency"]
    )


async def test_how_a_given_answer_was_tokenised_is_said_where_a_model_read_it(service):
    read = await scored(service, prompt=PROMPT, answer=" Paris", estimators=["sp"])
    unread = await scored(service, answer="Paris", samples=SAMPLES)
    generated = (await service.generate()).json()

    forms = [body["answer_form"] for body in (read, unread, generated)]
    assert forms == ["literal", None, None]


async def test_the_end_of_an_answer_counts_unless_it_is_left_open(service):
    ended = await scored(service, prompt=PROMPT, answer=" Paris", estimators=["sp"])
    open_ended = await scored(
        service, prompt=PROMPT, answer=" Paris", estimators=["sp"], append_eos=False
    )

    assert ended["usage"]["completion_tokens"] == open_ended["usage"]["completion_tokens"] + 1
    assert ended["scores"]["sp"] > open_ended["scores"]["sp"]


async def test_an_empty_answer_without_its_end_has_no_likelihood(service):
    result = await scored(
        service, prompt=PROMPT, answer="", append_eos=False, estimators=["sp", "consistency"]
    )

    assert result["reasons"] == {"sp": "empty answer"}
    assert result["scores"]["consistency"] is not None


async def test_an_answer_scored_equals_the_same_answer_generated(service):
    generated = (await service.generate(seed=3)).json()
    result = await scored(service, prompt=PROMPT, answer=generated["text"])

    assert result["num_distinct_samples"] == generated["num_distinct_samples"]
    assert result["scores"]["consistency"] == pytest.approx(generated["scores"]["consistency"])


async def test_messages_with_a_given_answer_are_scored(service):
    result = await scored(service, messages=[{"role": "user", "content": PROMPT}], answer="Paris")

    assert result["scores"]["cocoa_ppl"] is not None


async def test_own_samples_take_the_place_of_drawn_ones(service):
    before = service.engine.num_sequences
    result = await scored(
        service, prompt=PROMPT, answer="Paris", samples=SAMPLES, return_samples=True
    )

    assert service.engine.num_sequences == before + 1
    assert (result["samples_source"], result["num_samples"], result["seed"]) == ("client", 3, None)
    assert [sample["text"] for sample in result["samples"]] == ["Paris", "It is Paris.", "Lyon"]
    assert [sample["similarity"] for sample in result["samples"]] == [1.0, pytest.approx(0.0), 0.0]
    assert result["scores"]["cocoa_ppl"] is not None


async def test_texts_alone_get_consistency_without_any_model_and_reasons_for_the_rest(service):
    before = service.engine.num_calls
    result = await scored(service, answer="Paris", samples=SAMPLES)

    assert service.engine.num_calls == before
    assert (result["model"], result["retokenized"], result["samples_source"]) == (
        None,
        False,
        "client",
    )
    assert result["scores"]["consistency"] is not None
    assert result["scores"]["cocoa_ppl"] is None
    assert result["reasons"]["cocoa_ppl"] == "answer_token_logprobs is not available"
    assert (result["estimator"], result["degraded"]) == ("consistency", True)
    assert result["uncertainty"] == result["scores"]["consistency"]


@pytest.mark.parametrize("with_logprobs", [False, True], ids=["texts", "texts and log-probs"])
async def test_what_texts_alone_define_is_scored_and_nothing_is_refused(service, with_logprobs):
    logprobs = {"token_logprobs": [-0.5, -0.1]} if with_logprobs else {}
    samples = [sample | logprobs for sample in SAMPLES]
    result = await scored(service, answer="Paris", samples=samples, estimators=list(ESTIMATORS))

    textual = {"consistency", "degmat", "ce_degmat", "eigv", "num_sem_sets", "lexical_similarity"}
    likelihoods = {"mcse", "mcnse", "semantic_entropy", "sentence_sar"}
    expected = textual | (likelihoods if with_logprobs else set())
    assert {name for name, value in result["scores"].items() if value is not None} == expected
    assert result["reasons"].keys() == ESTIMATORS.keys() - expected


INVALID = {
    "no prompt and no samples": ({"answer": "Paris"}, "prompt"),
    "both inputs": (
        {"prompt": "a", "messages": [{"role": "user", "content": "a"}], "answer": "b"},
        "prompt",
    ),
    "no answer": ({"prompt": "a"}, "answer"),
    "an unknown field": ({"prompt": "a", "answer": "b", "mode": "full"}, "mode"),
    "a positive log-prob": (
        {"answer": "b", "samples": [{"text": "c", "token_logprobs": [0.1]}]},
        None,
    ),
    "a positive log-prob of the answer": (
        {"answer": "b", "answer_token_logprobs": [-0.1, 0.1]},
        "answer_token_logprobs.1",
    ),
    "a log-prob below any float32": (
        {"answer": "b", "answer_token_logprobs": [-0.1, -1e39]},
        "answer_token_logprobs.1",
    ),
    "no log-prob in the list": (
        {"answer": "b", "answer_token_logprobs": []},
        "answer_token_logprobs",
    ),
    "no samples in the list": ({"answer": "b", "samples": []}, "samples"),
    "half a surrogate pair": ({"prompt": "a", "answer": "\ud800"}, "answer"),
}


@pytest.mark.parametrize(("body", "field"), INVALID.values(), ids=INVALID)
async def test_a_bad_item_is_refused_with_its_field(service, body, field):
    # As escapes, since half a surrogate pair has no UTF-8.
    headers = {"Content-Type": "application/json"}
    response = await service.client.post("/score", content=json.dumps(body), headers=headers)

    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (422, "invalid_request")
    assert error["field"] == (field or "samples.0.token_logprobs.0")


async def test_one_bad_item_of_several_harms_none(service):
    items = [
        {"prompt": PROMPT, "answer": " Paris", "max_new_tokens": 64},
        {"prompt": PROMPT},
        "no object",
        {"prompt": "word " * 600, "answer": "long", "max_new_tokens": 8},
        {"answer": "Paris", "samples": SAMPLES},
    ]
    response = await service.client.post(
        "/score", json={"items": items}, headers={"X-Request-ID": "call"}
    )

    assert response.status_code == 200
    results = response.json()["results"]
    codes = [result["error"] and result["error"]["code"] for result in results]
    assert codes == [None, "invalid_request", "invalid_request", "prompt_too_long", None]
    assert [(result["result"] is None) == (result["error"] is not None) for result in results] == [
        True
    ] * 5
    assert results[0]["result"]["id"] == "call-0"
    assert results[1]["error"]["request_id"] == "call-1"
    assert results[4]["result"]["scores"]["consistency"] is not None


@pytest.mark.parametrize("num_items", [0, 65])
async def test_the_number_of_items_is_bounded(service, num_items):
    response = await service.client.post("/score", json={"items": [{"answer": "a"}] * num_items})

    assert response.status_code == 422
    assert response.json()["error"]["field"] == "items"


async def test_sixty_four_items_are_scored_under_a_smaller_admission_limit(service):
    service.admission.limit = 8
    shared = {"samples": SAMPLES, "estimators": ["consistency"]}
    items = [{"answer": f"answer {i}", **shared} for i in range(64)]
    response = await service.client.post("/score", json={"items": items})

    results = response.json()["results"]
    assert len(results) == 64
    assert all(result["error"] is None for result in results)


async def counted(service, code):
    metrics = (await service.client.get("/metrics")).text
    series = f'cocoa_errors_total{{code="{code}"}}'
    line = next(line for line in metrics.splitlines() if series in line)
    return float(line.split()[-1])


async def test_errors_of_single_items_are_counted_and_logged_as_those_of_requests(service, caplog):
    caplog.set_level("INFO")
    items = [{"answer": "Paris"}, {"prompt": "word " * 600, "answer": "zanzibar"}]
    response = await service.client.post("/score", json={"items": items})

    codes = [item["error"]["code"] for item in response.json()["results"]]
    assert codes == ["invalid_request", "prompt_too_long"]
    assert (
        await counted(service, "invalid_request"),
        await counted(service, "prompt_too_long"),
    ) == (1, 1)
    logged = [record.code for record in caplog.records if record.getMessage() == "item failed"]
    assert sorted(logged) == sorted(codes)
    assert "zanzibar" not in caplog.text


async def test_a_defect_in_one_item_leaves_the_others_their_result(service, caplog):
    generate = service.generator.generate

    async def defective(request, on_token=None):
        if "defect" in request.prompt:
            raise RuntimeError("zanzibar")
        return await generate(request, on_token)

    service.generator.generate = defective
    good = {"prompt": PROMPT, "answer": "Paris", "max_new_tokens": 8}
    items = [good, good | {"prompt": "a defect"}, good | {"prompt": "Another?"}]
    results = (await service.client.post("/score", json={"items": items})).json()["results"]

    assert [result["error"] and result["error"]["code"] for result in results] == [
        None,
        "internal_error",
        None,
    ]
    assert results[1]["error"]["request_id"].endswith("-1")
    assert await counted(service, "internal_error") == 1
    assert "zanzibar" not in caplog.text


def held(service, begun):
    """Have generations of items begin and wait until the event that this returns is set."""
    released = asyncio.Event()

    async def wait(request):
        if request.answer is not None:
            begun.append(request.prompt)
            await released.wait()

    service.before_generating(wait)
    return released


def call(service, items):
    return asyncio.create_task(service.client.post("/score", json={"items": items}))


async def test_what_an_item_waits_for_its_turn_is_of_its_own_time(service):
    begun = []
    held(service, begun)
    items = []
    for number in range(64):
        items.append({"prompt": f"Question {number}?", "answer": "Paris", "timeout_s": 0.3})
    results = (await call(service, [one | {"max_new_tokens": 8} for one in items])).json()

    codes = [result["error"]["code"] for result in results["results"]]
    assert codes == 64 * ["deadline_exceeded"]
    assert results["results"][63]["error"]["message"] == "no result within timeout_s = 0.3 s"
    assert len(begun) <= service.admission.concurrent_items, "the others never had a turn"
    assert service.admission.num_admitted == 0


async def test_items_of_several_calls_take_turns_and_leave_room_for_single_requests(service):
    begun = []
    released = held(service, begun)
    calls = []
    for name in "ab":
        items = [
            {"prompt": f"{name} {i}", "answer": "Paris", "max_new_tokens": 8} for i in range(9)
        ]
        calls.append(call(service, items))
    await until(lambda: len(begun) == 2)
    single = await service.generate(max_new_tokens=8)

    assert single.status_code == 200
    assert (len(begun), service.admission.num_admitted) == (2, 2)
    released.set()
    for response in await asyncio.gather(*calls):
        assert [result["error"] for result in response.json()["results"]] == 9 * [None]
    order = [prompt[0] for prompt in begun]
    assert order[2:6].count("b") >= 2, "the second call waits for none but its turn"
    assert len(begun) == 18


async def test_an_item_for_which_there_is_no_room_says_so_alone(service):
    service.admission.limit = 0
    known = {"answer": "Paris", "samples": SAMPLES, "estimators": ["consistency"]}
    results = (await call(service, [known, {"answer": "Paris"}])).json()["results"]

    assert [result["error"]["code"] for result in results] == ["overloaded", "invalid_request"]


async def test_an_answer_with_its_own_log_probs_needs_no_model_here(service):
    calls = service.engine.num_calls
    logprobs = [-0.2, -0.1, -0.3]
    result = await scored(
        service,
        answer="Paris",
        answer_token_logprobs=logprobs,
        samples=SAMPLES,
        estimators=["sp", "ppl", "cocoa_sp", "cocoa_ppl", "mte"],
        return_tokens=True,
    )

    scores = result["scores"]
    consistency = scores["cocoa_sp"] / scores["sp"]
    assert service.engine.num_calls == calls
    assert (scores["sp"], scores["ppl"]) == (pytest.approx(0.6), pytest.approx(0.2))
    assert scores["cocoa_ppl"] == pytest.approx(0.2 * consistency)
    assert 0 < consistency < 1
    assert result["reasons"] == {"mte": "answer_token_entropies is not available"}
    assert [token["logprob"] for token in result["tokens"]] == logprobs
    assert (result["model"], result["retokenized"], result["answer_form"]) == (None, False, None)
    assert result["usage"]["completion_tokens"] == 3


async def test_own_log_probs_alone_give_the_likelihoods(service):
    result = await scored(service, answer="Paris", answer_token_logprobs=[-0.5])

    assert (result["scores"]["sp"], result["scores"]["cocoa_sp"]) == (0.5, None)
    assert (result["num_samples"], result["samples_source"]) == (0, None)


async def test_the_lowest_log_probs_have_sums(service):
    lowest = [-3.4e38] * 8192
    samples = [{"text": text, "token_logprobs": lowest} for text in ("Paris", "Lyon")]
    result = await scored(
        service,
        answer="Paris",
        answer_token_logprobs=lowest,
        samples=samples,
        estimators=list(ESTIMATORS),
    )

    assert result["scores"]["sp"] == pytest.approx(3.4e38 * 8192)
    assert result["found_mass"] == 0
    assert not any("failed" in reason for reason in result["reasons"].values())


@pytest.mark.parametrize("more", [{}, {"num_samples": "auto"}, {"estimators": list(ESTIMATORS)}])
async def test_own_log_probs_win_over_those_of_the_model_that_draws_the_samples(service, more):
    body = {"prompt": PROMPT, "answer": "Paris", "answer_token_logprobs": [-0.5, -0.25], **more}
    result, again = await scored(service, **body), await scored(service, **body)
    other = await scored(service, **body | {"answer_token_logprobs": [-0.5]})

    assert result["scores"]["sp"] == 0.75
    assert result["samples_source"] == "model"
    assert result["scores"]["cocoa_sp"] is not None
    assert result["scores"]["mte"] is None
    assert (result["retokenized"], result["answer_form"]) == (False, None)
    assert (again["cached"], again["scores"]) == (True, result["scores"])
    assert (other["cached"], other["scores"]["sp"]) == (False, 0.5)
