"""`units: "sentences"`, through every endpoint."""

import json

import pytest

from cocoa_lab.calibration.calibrating import to_json
from models.similarity.protocol import NliConfig
from tests.api.openai_calls import CHAT, answered, uncertainty_of
from tests.api.scored import scored
from tests.conftest import serving
from tests.fakes import engine
from tests.made_calibrators import calibrator, with_fields

pytestmark = pytest.mark.anyio
PLACEMENTS = ["embedded", "remote"]

ANSWER = "# Lima\n\nLima is the capital of Peru. It has nine people.\n\n- It is old.\n"
SAMPLES = [
    {"text": "Lima is the capital of Peru. It is old."},
    {"text": "Lima is the capital of Peru. It is old."},
    {"text": ""},
]


async def test_each_sentence_has_its_support_and_who_contradicts(service):
    body = await scored(service, answer=ANSWER, samples=SAMPLES, units="sentences")

    answer, *sentences = body["units"]
    assert answer["kind"] == "answer"
    assert [one["kind"] for one in sentences] == ["sentence"] * 3
    assert [one["text"] for one in sentences] == [
        "Lima is the capital of Peru.",
        "It has nine people.",
        "It is old.",
    ]
    for one in sentences:
        assert ANSWER[slice(*one["span"])] == one["text"]
        assert 0 <= one["support"] <= 1
        assert 0 <= one["contradiction"] <= 1
        assert set(one["contradicted_by"]) <= {0, 1, 2}
        assert one["scores"]["inconsistency"] == pytest.approx(1 - one["support"])
    # Word for word in all but an empty sample; and a number that no sample has.
    assert [one["support"] for one in sentences] == pytest.approx([2 / 3, 0, 2 / 3])
    assert body["provenance"]["unit_pairs"] == 3
    assert body["provenance"]["nli_model"]["id"] == "fake"
    assert body["units_max"] == max(one["uncertainty"] for one in sentences)


async def test_a_generated_answer_has_sentences_with_tokens_and_an_explanation(service):
    body = (await service.generate(units="sentences", explain=True, return_tokens=True)).json()

    [_, sentence] = body["units"]
    first, behind = sentence["tokens"]
    logprobs = [token["logprob"] for token in body["tokens"][first:behind]]
    assert sentence["scores"]["sp"] == pytest.approx(-sum(logprobs))
    assert sentence["confidence"] is None
    assert "calibrat" in body["reasons"]["units.confidence"]
    assert "sentence" in body["explanation"].lower()


async def test_the_same_sentences_come_from_the_cache(service):
    asked = {"prompt": "Which?", "answer": ANSWER, "samples": SAMPLES, "units": "sentences"}
    first, again = await scored(service, **asked), await scored(service, **asked)

    assert (first["cached"], again["cached"]) == (False, True)
    assert again["units"] == first["units"]


async def test_a_stream_ends_in_a_result_with_sentences(service):
    asked = {"prompt": "Capital?", "units": "sentences", "stream": True}
    response = await service.client.post("/generate-with-uncertainty", json=asked)

    *_, last = response.text.strip().split("\n\n")
    _, data = last.splitlines()
    assert json.loads(data.removeprefix("data: "))["units"][1]["kind"] == "sentence"


async def test_openais_endpoint_tells_sentences_beside_the_scores(service):
    body = await answered(service, CHAT, uncertainty={"units": "sentences"})

    kinds = [one["kind"] for one in uncertainty_of(body)["units"]]
    assert kinds == ["answer", "sentence"]


@pytest.mark.parametrize(
    ("asked", "field", "said"),
    [
        ({"answer": "It is so. " * 1100, "samples": SAMPLES}, "answer", "at most 1024 sentences"),
        (
            {
                "answer": "It is so. " * 1000,
                "samples": [{"text": f"{i} " * 10_000} for i in range(2)],
            },
            "samples",
            "pairs of texts to compare",
        ),
        ({"on_unit_reject": "remove"}, "on_unit_reject", "sentences"),
        ({"target_error": 0.1}, "target_error", "calibrator"),
        ({"json_schema": {}}, "json_schema", "units fields only"),
    ],
    ids=["too many", "too many pairs", "no target error", "no calibrator", "a schema"],
)
async def test_sentences_that_cannot_be_told_are_refused_by_name(service, asked, field, said):
    body = {"answer": ANSWER, "samples": SAMPLES, "units": "sentences"} | asked
    response = await service.client.post("/score", json=body)

    error = response.json()["error"]
    assert (response.status_code, error["field"]) == (422, field)
    assert said in error["message"]


HOSTILE = {
    "32 kB without a stop": "a " * 16_000,
    "8,000 words": "word " * 6_000 + ".",
    "white space": " \n\t",
    "code": "```\nx = 1\n```",
    "scripts": "巴黎。Lima. ليما؟ ลิมา\u2028.\x00😀",
    "marks": "|---|\n> - 1. [ ] \n```",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=list(HOSTILE))
async def test_any_text_has_sentences_or_a_warning(service, text):
    body = await scored(service, answer=text, samples=[{"text": "Lima."}], units="sentences")

    assert body["units"][0]["text"] == text
    assert len(body["units"]) > 1 or "no_sentences" in body["warnings"]


async def test_without_an_nli_model_sentences_are_compared_by_their_words():
    async with serving(nli=NliConfig(name="fake_nli", model="")) as service:
        response = await service.generate(units="sentences")

        assert response.status_code == 200, response.text
        told = [one for one in response.json()["units"] if one["kind"] == "sentence"]
        assert told
        assert all(0 <= one["support"] <= 1 for one in told)
        assert response.json()["provenance"]["unit_pairs"] == 0


@pytest.mark.parametrize("call", ["score", "token_ends"])
async def test_an_nli_model_that_fails_in_the_middle_is_an_error(call):
    def raises(given):
        raise RuntimeError("broken")

    async with serving() as service:
        setattr(service.nli_model, call, raises)
        response = await service.generate(units="sentences")

    assert response.status_code == 503
    assert response.json()["error"]["code"] == "similarity_unavailable"


async def test_sentences_that_do_not_pass_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "_ANSWERS", (ANSWER, "Lima is the capital of Peru."))
    async with serving() as service:
        plain = (await service.generate(seed=1, units="sentences")).json()
        workers = service.workers
        made = calibrator(
            generator=workers.generator.info.identity,
            comparer=workers.similarity_scorers["fake"].info.identity,
            nli=workers.nli.info.identity,
        )
    ordered = sorted(plain["units"][1:], key=lambda one: one["uncertainty"])
    assert len(ordered) == 3
    threshold = (ordered[0]["uncertainty"] + ordered[1]["uncertainty"]) / 2
    path = tmp_path / "made.json"
    path.write_text(to_json(with_fields(made, threshold, unit="sentence")))

    asked = {"seed": 1, "units": "sentences", "target_error": 0.1}
    async with serving(calibrator=str(path)) as service:
        removed = (await service.generate(on_unit_reject="remove", **asked)).json()
        held = (await service.generate(on_unit_reject="abstain", **asked)).json()

    assert "# Lima" in removed["refined_text"]
    assert ordered[0]["text"] in removed["refined_text"]
    for one in ordered[1:]:
        assert one["text"] not in removed["refined_text"]
    assert [one["decision"]["removed"] for one in removed["units"][1:]].count(True) == 2
    assert removed["text"] == plain["text"]
    assert held["text"] is None
