"""Confidence, decisions, and answers held back."""

from dataclasses import replace

import pytest

from app.scoring.plan import NO_CALIBRATOR
from cocoa_lab.calibration.calibrating import to_json
from models.calibration import ALL, WINDOWS, Threshold
from tests.conftest import serving, until
from tests.made_calibrators import calibration, calibrator, with_fields, with_prompts

pytestmark = pytest.mark.anyio

NOTHING_PASSES = {ALL: {"rb_cocoa_root_sp": calibration(threshold=-1.0)}}
ALL_PASS = {ALL: {"rb_cocoa_root_sp": calibration(threshold=1e6)}}
TARGET = {"target_error": 0.05, "seed": 1}


async def bound_to_fakes(groups=None):
    """A calibrator of the fake deployment."""
    async with serving() as service:
        workers = service.workers
        return calibrator(
            groups,
            generator=workers.generator.info.identity,
            comparer=workers.similarity_scorers["fake"].info.identity,
            nli=workers.nli.info.identity,
        )


@pytest.fixture
def calibrated(tmp_path):
    """The service with a calibrator: `async with calibrated(groups, **settings)`."""

    def start(made, **settings):
        path = tmp_path / "made.json"
        path.write_text(to_json(made))
        return serving(calibrator=str(path), **settings)

    return start


async def test_an_answer_has_a_confidence_a_percentile_and_names_its_calibrator(calibrated):
    async with calibrated(await bound_to_fakes()) as service:
        body = (await service.generate(seed=1)).json()
        version = (await service.client.get("/version")).json()

    one = calibration()
    assert body["confidence"] == pytest.approx(one.confidence(body["uncertainty"]))
    assert body["provenance"]["percentile"] == pytest.approx(one.percentile(body["uncertainty"]))
    assert body["provenance"]["calibrator"] == version["calibrator"]["id"]
    assert body["reasons"] == {}
    assert "decision" not in body
    assert version["calibrator"]["target_errors"] == [0.01, 0.05]
    assert version["calibrator"]["estimators"] == ["rb_cocoa_root_sp"]
    told = version["calibrator"]["thresholds"]["rb_cocoa_root_sp"]
    assert len(told) == len(one.thresholds) == 2
    for shown, threshold in zip(told, one.thresholds, strict=True):
        assert shown["target_error"] == threshold.target_error
        assert shown["uncertainty"] == threshold.uncertainty
        assert shown["share_accepted"] == (threshold.share_accepted or 0.0)
        assert shown["labels_missing"] == threshold.labels_missing


async def test_where_nothing_passes_the_start_readiness_and_the_response_say_so(calibrated, caplog):
    caplog.set_level("INFO", logger="app.main")
    in_vain = calibration(thresholds=(Threshold(0.01, None), Threshold(0.05, None)))
    made = with_fields(await bound_to_fakes({ALL: {"rb_cocoa_root_sp": in_vain}}))
    detail = "no answer passes at a target error of 0.01 or 0.05"
    async with calibrated(made) as service:
        ready = await service.client.get("/readyz")
        body = (await service.generate(**TARGET, on_reject="abstain")).json()

    assert ready.json() == {"status": "ready", "details": [detail]}
    assert f"by the calibrator {detail}" in caplog.messages
    decision = body["decision"]
    assert (decision["accept"], decision["threshold"]) == (False, None)
    words = f"{decision['guarantee']} {decision['reason']} {body['reasons']['text']}"
    assert "nothing passes at a target error of 5 %" in words
    assert "threshold" not in words


async def test_an_answer_that_may_be_held_back_is_not_streamed(calibrated):
    async with calibrated(await bound_to_fakes()) as service:
        for on_reject, status in (("answer", 200), ("abstain", 422)):
            response = await service.generate(**TARGET, on_reject=on_reject, stream=True)
            assert response.status_code == status
            if status == 422:
                error = response.json()["error"]
                assert error["field"] == "on_reject"
                assert "streamed" in error["message"]


async def test_without_a_calibrator_it_says_why_there_is_no_confidence(service):
    body = (await service.generate(seed=1)).json()
    assert body["confidence"] is None
    assert body["reasons"] == {"confidence": NO_CALIBRATOR}
    assert not body["provenance"].keys() & {"percentile", "calibrator"}


async def test_a_score_of_other_sampling_has_none_and_a_decision_on_it_is_refused(calibrated):
    async with calibrated(await bound_to_fakes()) as service:
        body = (await service.generate(num_samples=3)).json()
        refused = await service.generate(num_samples=3, target_error=0.05)

    assert body["confidence"] is None
    assert body["reasons"]["confidence"] == (
        "not calibrated for num_samples 3: ask with num_samples 10, or calibrate for it"
    )
    assert refused.status_code == 422
    error = refused.json()["error"]
    assert (error["code"], error["field"]) == ("not_calibrated", "target_error")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"target_error": 0.07}, "target_error"),
        ({"target_error": 0}, "target_error"),
        ({"on_reject": "abstain"}, "on_reject"),
        ({"on_reject": "shout", "target_error": 0.05}, "on_reject"),
        ({"hand_over_below": 0.5}, "hand_over_below"),
        ({"hand_over_below": 1.5, "target_error": 0.05}, "hand_over_below"),
        ({"calibration": "poems"}, "calibration"),
    ],
    ids=str,
)
async def test_what_cannot_be_decided_is_refused_before_any_work(calibrated, body, field):
    async with calibrated(await bound_to_fakes()) as service:
        calls = service.engine.num_calls
        response = await service.generate(**body)
        assert service.engine.num_calls == calls

    assert response.status_code == 422
    assert response.json()["error"]["field"] == field


async def test_an_answer_that_passes_is_given(calibrated):
    async with calibrated(await bound_to_fakes(ALL_PASS)) as service:
        body = (await service.generate(**TARGET, on_reject="abstain")).json()

    assert body["text"]
    assert body["decision"]["accept"] is True
    assert "at most 5 % of the accepted answers are wrong" in body["decision"]["guarantee"]


async def test_the_confidence_of_one_that_does_not_pass_decides_what_to_do_with_it(calibrated):
    async with calibrated(await bound_to_fakes(NOTHING_PASSES)) as service:
        confidence = (await service.generate(seed=1)).json()["confidence"]
        verdicts = []
        for floor in (confidence, confidence + 0.001):
            body = (await service.generate(**TARGET, hand_over_below=floor)).json()
            verdicts.append(body["decision"])
    assert [verdict["action"] for verdict in verdicts] == ["verify", "hand_over"]
    assert [verdict["accept"] for verdict in verdicts] == [False, False]
    assert verdicts[0]["reason"].startswith("it does not pass, but its confidence is ")


async def test_one_that_does_not_is_held_back_with_all_that_would_tell_it(calibrated):
    async with calibrated(await bound_to_fakes(NOTHING_PASSES)) as service:
        wanted = {"return_samples": True, "return_tokens": True, "units": "answer"} | TARGET
        given = (await service.generate(**wanted)).json()
        held_back = (await service.generate(**wanted, on_reject="abstain")).json()
        metrics = (await service.client.get("/metrics")).text

    assert (given["decision"]["accept"], held_back["decision"]["accept"]) == (False, False)
    assert given["text"]
    for name in ("text", "samples", "tokens", "units"):
        assert held_back[name] is None
        assert "the answer is held back" in held_back["reasons"][name]
    assert held_back["scores"] == given["scores"]
    assert held_back["cached"], "what is held back is what the cache holds"
    assert 'cocoa_decisions_total{outcome="given"} 1.0' in metrics
    assert 'cocoa_decisions_total{outcome="held_back"} 1.0' in metrics


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/generate-with-uncertainty", {"prompt": "a"}, "on_reject"),
        ("/score", {"answer": "a", "samples": [{"text": "a"}]}, "on_reject"),
        (
            "/v1/chat/completions",
            {"model": "fake", "messages": [{"role": "user", "content": "a"}]},
            "uncertainty.on_reject",
        ),
    ],
)
async def test_what_a_rejected_answer_may_become_is_told(calibrated, path, body, field):
    wanted = TARGET | {"on_reject": "escalate"}
    if field.startswith("uncertainty"):
        wanted = {"uncertainty": wanted}
    async with calibrated(await bound_to_fakes()) as service:
        response = await service.client.post(path, json=body | wanted)
    error = response.json()["error"]
    assert (response.status_code, error.get("param", error.get("field"))) == (422, field)
    assert "'answer' or 'abstain'" in error["message"]


async def test_what_is_served_and_has_drifted_is_warned_of_and_measured(calibrated):
    async with calibrated(await bound_to_fakes()) as service:
        first = (await service.generate(prompt="Question 0?")).json()
        for number in range(1, WINDOWS[0] + 1):
            last = (await service.generate(prompt=f"Question {number}?")).json()
        metrics = (await service.client.get("/metrics")).text

    assert "calibration_shift" not in first["warnings"]
    assert "calibration_shift" in last["warnings"]
    name = 'cocoa_calibration_shift_ratio{estimator="rb_cocoa_root_sp",group="all"}'
    [line] = (line for line in metrics.splitlines() if line.startswith(name))
    assert float(line.split()[-1]) > 1


async def test_another_deployments_calibrator_ends_the_start(tmp_path, caplog):
    path = tmp_path / "other.json"
    path.write_text(to_json(calibrator(revision="other")))
    async with (
        serving(calibrator=str(path), ready=False) as service,
        service.app.router.lifespan_context(service.app),
    ):
        await until(lambda: service.deaths)

    assert "its revision was other, and is 1" in caplog.text


async def test_an_explanation_groups_the_samples_and_a_held_back_answer_has_none(calibrated):
    async with calibrated(await bound_to_fakes(NOTHING_PASSES)) as service:
        plain = (await service.generate(**TARGET)).json()
        explained = (await service.generate(**TARGET, explain=True)).json()
        held_back = (await service.generate(**TARGET, explain=True, on_reject="abstain")).json()

    assert not plain.keys() & {"explanation", "groups", "confidence_interval"}
    low, high = explained["confidence_interval"]
    assert 0 <= low <= explained["confidence"] <= high <= 1
    assert low < high
    assert "the same as the answer" in explained["explanation"]
    assert explained["groups"][0]["is_answer"]
    assert sum(group["count"] for group in explained["groups"]) == 10
    assert explained["scores"] == pytest.approx(plain["scores"])
    for name in ("explanation", "groups"):
        assert held_back[name] is None
        assert "the answer is held back" in held_back["reasons"][name]


async def test_a_confidence_that_no_sample_moves_has_no_interval(calibrated):
    async with calibrated(await bound_to_fakes()) as service:
        body = (await service.generate(explain=True, estimator="sp")).json()

    assert body["confidence_interval"] is None
    assert "has no confidence, or one that" in body["reasons"]["confidence_interval"]


async def test_light_mode_has_no_samples_to_explain(service):
    response = await service.generate(mode="light", explain=True, estimators=["sp"])
    assert response.status_code == 422
    assert response.json()["error"]["field"] == "explain"


async def test_folders_of_whoever_made_a_calibrator_are_told_to_nobody(calibrated):
    made = replace(await bound_to_fakes(), source="/home/me/data/set.jsonl, 300 labels by nli")
    async with calibrated(made) as service:
        version = await service.client.get("/version")
        body = (await service.generate(**TARGET)).json()
    assert version.json()["calibrator"]["source"] == "set.jsonl, 300 labels by nli"
    assert body["decision"]["guarantee"].endswith("those of set.jsonl, 300 labels by nli")
    assert "/home" not in version.text


FOREIGN_CENTRE = 50.0


@pytest.fixture
def compared(tmp_path):
    """The service with a calibrator whose prompts lie around a centre."""

    async def start(centre, **settings):
        path = tmp_path / "made.json"
        with_prompts(await bound_to_fakes(ALL_PASS), path, centre)
        return serving(calibrator=str(path), **settings)

    return start


async def test_an_answer_to_a_foreign_prompt_does_not_pass_and_says_so(compared):
    async with await compared(FOREIGN_CENTRE) as service:
        body = (await service.generate(**TARGET)).json()
        again = (await service.generate(**TARGET)).json()
        held_back = (await service.generate(**TARGET, on_reject="abstain")).json()
        version = (await service.client.get("/version")).json()

    assert again["cached"]
    for one in (body, again):
        assert "prompt_out_of_domain" in one["warnings"]
        assert (one["confidence"], one["decision"]["accept"]) == (None, False)
        assert one["reasons"]["confidence"].startswith("prompt_out_of_domain: ")
        assert one["decision"]["guarantee"].startswith("prompt_out_of_domain: ")
    assert held_back["text"] is None
    assert version["calibrator"]["compares_prompts"] is True


async def test_a_foreign_prompt_is_only_warned_of_where_that_is_set(compared):
    async with await compared(FOREIGN_CENTRE, prompt_out_of_domain="warn") as service:
        body = (await service.generate(**TARGET)).json()

    assert "prompt_out_of_domain" in body["warnings"]
    assert body["confidence"] is not None
    assert body["decision"]["accept"] is True


async def test_a_prompt_like_those_of_the_calibration_passes(compared):
    async with await compared(0.0) as service:
        body = (await service.generate(**TARGET)).json()

    assert "prompt_out_of_domain" not in body["warnings"]
    assert body["decision"]["accept"] is True


async def test_a_calibrator_without_prompts_compares_none(calibrated):
    async with calibrated(await bound_to_fakes(ALL_PASS)) as service:
        body = (await service.generate(**TARGET)).json()
        version = (await service.client.get("/version")).json()

    assert body["warnings"] == []
    assert version["calibrator"]["compares_prompts"] is False


CHAT = {"messages": [{"role": "user", "content": "Hi"}]}
TOOLS = [{"type": "function", "function": {"name": "pay"}}]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (
            {"temperature": 0.2},
            "not calibrated for temperature 0.2: ask with temperature 0, or calibrate for it",
        ),
        (
            {"temperature": 0.2, "n": 2},
            "not calibrated for temperature 0.2: ask with temperature 0, or calibrate for it",
        ),
        (
            {"temperature": 0.2, "uncertainty": {"strategy": "mbr", "target_error": 0.05}},
            "not calibrated for uncertainty.strategy mbr, temperature 0.2: "
            "ask with uncertainty.strategy greedy, temperature 1, or calibrate for it",
        ),
        (
            {"tools": TOOLS, "uncertainty": {"units": "answer", "target_error": 0.05}},
            "not calibrated for tools called: ask with tools none, or calibrate for it; "
            "uncertainty.units says what is judged: fields, the values of calls, or answer",
        ),
        (
            {"tools": TOOLS},
            "cocoa_sp of a field is not calibrated; "
            "uncertainty.units says what is judged: fields, the values of calls, or answer",
        ),
        (
            {"max_tokens": 7, "uncertainty": {"num_samples": 3, "target_error": 0.05}},
            "not calibrated for uncertainty.num_samples 3, max_tokens 7: "
            "ask with uncertainty.num_samples 10, max_tokens 64, or calibrate for it",
        ),
        ({"uncertainty": {"on_reject": "abstain"}}, "needs uncertainty.target_error"),
    ],
    ids=[
        "a temperature, as most clients send it",
        "choices",
        "one of the samples",
        "tools",
        "units",
        "bounds",
        "need",
    ],
)
async def test_a_chat_is_told_in_its_own_words_what_would_be_calibrated(calibrated, fields, why):
    made = await bound_to_fakes()
    chats = replace(made.parts[0], binding=replace(made.parts[0].binding, input="messages"))
    async with calibrated(replace(made, parts=(chats,))) as service:
        body = {"model": "cocoa", **CHAT, "uncertainty": {"target_error": 0.05}}
        calibrated_one = await service.client.post("/v1/chat/completions", json=body)
        for greedy in (0, None):
            again = body | {"temperature": greedy}
            asked = await service.client.post("/v1/chat/completions", json=again)
            assert asked.status_code == 200
        refused = await service.client.post("/v1/chat/completions", json=body | fields)

    assert calibrated_one.json()["choices"][0]["uncertainty"]["confidence"] is not None
    assert (refused.status_code, refused.json()["error"]["message"]) == (422, why)
