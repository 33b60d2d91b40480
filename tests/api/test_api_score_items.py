"""`POST /score` with several items: each on its own, in turns."""

import asyncio

import pytest

from tests.api.scored import PROMPT, SAMPLES
from tests.conftest import GENERATE, until

pytestmark = pytest.mark.anyio


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
    assert results[4]["result"]["scores"]["inconsistency"] is not None


@pytest.mark.parametrize("num_items", [0, 65])
async def test_the_number_of_items_is_bounded(service, num_items):
    response = await service.client.post("/score", json={"items": [{"answer": "a"}] * num_items})

    assert response.status_code == 422
    assert response.json()["error"]["field"] == "items"


async def test_sixty_four_items_are_scored_under_a_smaller_admission_limit(service):
    service.admission.limit = 8
    shared = {"samples": SAMPLES, "estimators": ["inconsistency"]}
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


async def test_requests_in_the_background_let_others_go_first(service):
    begun = []

    async def wait(request):
        begun.append(request.prompt)
        await released.wait()

    released = asyncio.Event()
    service.before_generating(wait)

    def ask(path, prompt, **options):
        body = {"prompt": prompt, **options}
        headers = {"Priority": "u=7, i"}
        return asyncio.create_task(service.client.post(path, json=body, headers=headers))

    calls = []
    for number in range(4):
        calls.append(ask("/v1/completions", f"{number}", max_tokens=8, model="fake"))
        calls.append(ask(GENERATE, f"{number}{number}", max_new_tokens=8))
    await until(lambda: len(begun) == 2)
    alone = asyncio.create_task(service.generate(prompt="alone", max_new_tokens=8))
    await until(lambda: "alone" in begun)
    assert len(begun) == 3, "two in the background, and the one that came alone"
    released.set()
    assert (await alone).status_code == 200
    for response in await asyncio.gather(*calls):
        assert response.status_code == 200, response.text


async def test_an_item_for_which_there_is_no_room_says_so_alone(service):
    service.admission.limit = 0
    known = {"answer": "Paris", "samples": SAMPLES, "estimators": ["inconsistency"]}
    results = (await call(service, [known, {"answer": "Paris"}])).json()["results"]

    assert [result["error"]["code"] for result in results] == ["overloaded", "invalid_request"]


async def test_items_run_as_many_as_the_single_requests_that_would_starve_them(service):
    begun, items = asyncio.Event(), []
    service.admission.limit = 64

    async def wait(request):
        if request.answer is not None:
            items.append(request.prompt)
        await begun.wait()

    service.before_generating(wait)
    singles = []
    for number in range(10):
        asked = service.generate(prompt=f"alone {number}", max_new_tokens=8)
        singles.append(asyncio.create_task(asked))
    await until(lambda: service.admission.num_admitted == 10)
    calls = []
    for name in "abcdef":
        asked = []
        for number in range(3):
            one = {"prompt": f"{name} {number}", "answer": "Paris", "max_new_tokens": 8}
            asked.append(one)
        calls.append(call(service, asked))
    await until(lambda: len(items) == 10)
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(items) == service.admission.num_admitted - 10 == 10
    assert [sum(prompt.startswith(name) for prompt in items) for name in "abcde"] == [2] * 5

    begun.set()
    for response in await asyncio.gather(*calls):
        assert [result["error"] for result in response.json()["results"]] == [None] * 3
    assert {response.status_code for response in await asyncio.gather(*singles)} == {200}
    assert service.admission.num_admitted == 0


async def test_a_call_behind_other_calls_ends_typed_with_its_deadline(service):
    begun = []
    released = held(service, begun)
    slow = call(service, [{"prompt": f"{i}", "answer": "a", "max_new_tokens": 8} for i in range(4)])
    await until(lambda: len(begun) == 2)
    late = [{"prompt": "late", "answer": "a", "max_new_tokens": 8, "timeout_s": 0.2}] * 3
    response = await call(service, late)

    codes = [result["error"]["code"] for result in response.json()["results"]]
    assert codes == ["deadline_exceeded"] * 3
    assert begun == ["0", "1"], "the late ones never had a turn"
    released.set()
    assert (await slow).status_code == 200
    assert len(begun) == 4
    assert service.admission.num_admitted == 0
