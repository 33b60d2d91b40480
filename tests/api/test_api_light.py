"""Light mode over HTTP, with the fake engine and probes of random weights."""

from dataclasses import replace

import numpy as np
import pytest

from app.scoring.defaults import LIGHT_ESTIMATORS
from cocoa_lab.probes.from_collection import save
from models.probes.protocol import ProbeConfig
from tests.conftest import serving
from tests.reasons import score_reasons
from tests.tiny_probes import random_probe, saved

pytestmark = pytest.mark.anyio


@pytest.fixture
def probes(tmp_path):
    return ProbeConfig(
        inconsistency=saved(tmp_path),
        high_semantic_entropy=saved(tmp_path, "semantic_entropy", layer=3, seed=1),
    )


async def test_light_mode_answers_with_light_scores_and_draws_no_samples(probes):
    async with serving(probes=probes) as service:
        calls, sequences = service.engine.num_calls, service.engine.num_sequences
        pairs = sum(service.pair_model.batches)
        response = await service.generate(mode="light")
        body = response.json()

        assert response.status_code == 200, response.text
        assert (service.engine.num_calls, service.engine.num_sequences) == (
            calls + 1,
            sequences + 1,
        )
        assert sum(service.pair_model.batches) == pairs
    provenance = body["provenance"]
    assert (provenance["mode"], provenance["strategy"]) == ("light", "greedy")
    assert (body["estimator"], list(body["scores"])) == ("cocoa_sp_light", list(LIGHT_ESTIMATORS))
    assert score_reasons(body) == {}
    scores = body["scores"]
    assert 0 <= scores["inconsistency_light"] <= 1
    for base in ("sp", "ppl", "mte"):
        assert scores[f"cocoa_{base}_light"] == pytest.approx(
            scores[base] * scores["inconsistency_light"]
        )
    assert body["uncertainty"] == scores["cocoa_sp_light"]
    assert "samples" not in body
    assert not provenance.keys() & {"num_samples", "similarity", "similarity_model"}
    assert "entropy_split" not in provenance


async def test_the_response_names_the_probe_and_how_far_the_answer_lies_from_its_training(probes):
    async with serving(probes=probes) as service:
        body = (await service.generate(mode="light")).json()
        entropy = (
            await service.generate(mode="light", estimator="high_semantic_entropy_light")
        ).json()
        loaded = (await service.client.get("/version")).json()["probes"]

    probe = body["provenance"]["probe"]
    assert probe.keys() == {"id", "training_set", "distance_percentile", "out_of_domain"}
    assert probe["training_set"] == "prompts.jsonl"
    assert 0 <= probe["distance_percentile"] <= 100
    assert probe["id"] == loaded["predicted_dissimilarity"]["id"]
    assert (
        entropy["provenance"]["probe"]["id"]
        == loaded["predicted_high_semantic_entropy"]["id"]
        != probe["id"]
    )
    assert {name: probe["layer"] for name, probe in loaded.items()} == {
        "predicted_dissimilarity": 2,
        "predicted_high_semantic_entropy": 3,
    }


async def test_an_answer_far_from_the_training_set_is_flagged(tmp_path):
    far = ProbeConfig(inconsistency=saved(tmp_path, shift=50.0), high_semantic_entropy="")
    async with serving(probes=far) as service:
        body = (await service.generate(mode="light")).json()

    assert body["provenance"]["probe"]["out_of_domain"] is True
    assert body["provenance"]["probe"]["distance_percentile"] == 100
    assert "out_of_domain" in body["warnings"]


async def test_a_one_token_answer_has_its_scores_and_says_so(probes):
    async with serving(probes=probes) as service:
        body = (await service.generate(mode="light", max_new_tokens=1)).json()

    assert body["usage"]["completion_tokens"] == 1
    assert "one_token_answer" in body["warnings"]
    assert body["scores"]["inconsistency_light"] is not None


async def test_light_and_sampled_estimators_come_together_in_full_mode(probes):
    async with serving(probes=probes) as service:
        body = (
            await service.generate(estimators=["inconsistency", "inconsistency_light"], seed=1)
        ).json()

    assert (body["provenance"]["mode"], body["provenance"]["num_samples"]) == ("full", 10)
    assert body["scores"].keys() == {"inconsistency", "inconsistency_light"}
    assert "probe" in body["provenance"]
    assert score_reasons(body) == {}


async def test_full_mode_without_light_estimators_reads_no_probe(probes):
    async with serving(probes=probes) as service:
        body = (await service.generate()).json()

    assert "probe" not in body["provenance"]


async def test_the_light_answer_is_that_of_full_mode(probes):
    async with serving(probes=probes) as service:
        light = (await service.generate(mode="light")).json()
        full = (await service.generate()).json()

    assert light["text"] == full["text"]
    assert light["scores"]["ppl"] == full["scores"]["ppl"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"mode": "light", "estimators": ["cocoa_ppl_light", "cocoa_ppl"]}, "estimators"),
        ({"mode": "light", "estimators": ["semantic_entropy"]}, "estimators"),
        ({"mode": "light", "estimator": "inconsistency"}, "estimator"),
        ({"mode": "light", "strategy": "mbr"}, "strategy"),
        ({"mode": "light", "return_samples": True}, "return_samples"),
        ({"mode": "light", "explain": True}, "explain"),
        ({"mode": "light", "num_samples": 10}, "num_samples"),
        ({"mode": "light", "temperature": 0.7}, "temperature"),
        ({"mode": "light", "top_k": 5}, "top_k"),
        ({"mode": "light", "top_p": 0.9}, "top_p"),
        ({"mode": "light", "similarity": "fake"}, "similarity"),
        ({"mode": "lite"}, "mode"),
        ({"strategy": "most_probable", "estimators": ["cocoa_sp_light"]}, "strategy"),
    ],
    ids=lambda value: value if isinstance(value, str) else "+".join(value),
)
async def test_what_light_mode_cannot_do_is_refused_before_any_work(probes, body, field):
    async with serving(probes=probes) as service:
        calls = service.engine.num_calls
        response = await service.generate(**body)
        assert service.engine.num_calls == calls

    error = response.json()["error"]
    assert (response.status_code, error["code"], error["field"]) == (422, "invalid_request", field)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"mode": "light"}, "mode"),
        ({"mode": "light", "estimators": ["cocoa_ppl_light"]}, "estimators"),
        ({"estimator": "inconsistency_light"}, "estimator"),
        ({"estimators": ["high_semantic_entropy_light"]}, "estimators"),
    ],
)
async def test_a_model_without_a_probe_says_how_to_train_one(service, body, field):
    response = await service.generate(**body)

    error = response.json()["error"]
    assert (response.status_code, error["code"], error["field"]) == (422, "probe_missing", field)
    assert "cocoa probe train" in error["message"]


async def test_light_mode_without_the_entropy_probe_leaves_its_score_out(tmp_path):
    only = ProbeConfig(inconsistency=saved(tmp_path), high_semantic_entropy="")
    async with serving(probes=only) as service:
        body = (await service.generate(mode="light")).json()
        response = await service.generate(mode="light", estimators=["high_semantic_entropy_light"])

    assert body["scores"].keys() == set(LIGHT_ESTIMATORS)
    assert response.json()["error"]["code"] == "probe_missing"


async def test_a_given_answer_has_no_light_score_and_says_why(probes):
    async with serving(probes=probes) as service:
        request = {
            "prompt": "Capital of France?",
            "answer": "Paris",
            "estimators": ["sp", "cocoa_sp_light"],
        }
        body = (await service.client.post("/score", json=request | {"max_new_tokens": 8})).json()

    assert body["scores"]["cocoa_sp_light"] is None
    assert "greedy" in body["reasons"]["cocoa_sp_light"]
    assert body["scores"]["sp"] is not None


async def test_the_estimators_page_says_which_light_ones_are_available(tmp_path):
    only = ProbeConfig(inconsistency=saved(tmp_path), high_semantic_entropy="")
    async with serving(probes=only) as service:
        page = (await service.client.get("/estimators")).json()

    available = {one["name"]: one["available"] for one in page["estimators"]}
    assert page["light"] == list(LIGHT_ESTIMATORS)
    assert available["cocoa_ppl_light"]
    assert not available["high_semantic_entropy_light"]


async def test_scoring_a_given_answer_takes_nothing_from_later_light_requests(probes):
    async with serving(probes=probes) as service:
        body = {"prompt": "Capital of France?", "answer": "Paris", "max_new_tokens": 8}
        assert (await service.client.post("/score", json=body)).status_code == 200
        assert (await service.generate(mode="light")).status_code == 200


async def test_light_answers_have_no_samples_and_say_of_none_where_they_came_from(probes):
    async with serving(probes=probes) as service:
        body = (await service.generate(mode="light")).json()

    assert not body["provenance"].keys() & {"num_samples", "samples_source", "seed"}


@pytest.mark.parametrize("value", [float("nan"), 1.5])
async def test_a_reading_that_is_no_probability_is_null_at_once_and_from_the_cache(probes, value):
    async with serving(probes=probes) as service:
        probe = service.generator._probes["predicted_dissimilarity"]
        probe.values = lambda features: np.full(len(features), value)
        first = await service.generate(mode="light")
        again = await service.generate(mode="light")

    assert (first.status_code, again.status_code) == (200, 200)
    assert (first.json()["cached"], again.json()["cached"]) == (False, True)
    for body in (first.json(), again.json()):
        assert body["scores"]["sp"] is not None
        for name in ("inconsistency_light", "cocoa_sp_light", "cocoa_ppl_light", "cocoa_mte_light"):
            assert body["scores"][name] is None
            assert body["reasons"][name] == "the probe's reading is no number in its range"


async def test_where_high_semantic_entropy_is_named_its_split_and_base_rate_are_told(tmp_path):
    probe = random_probe("semantic_entropy", layer=3)
    probe.card = replace(probe.card, metrics={"test": {"positive_share": 0.25}})
    save(probe, tmp_path)
    probes = ProbeConfig(inconsistency=saved(tmp_path), high_semantic_entropy=str(tmp_path))
    async with serving(probes=probes) as service:
        names = ["sp", "high_semantic_entropy_light"]
        body = (await service.generate(mode="light", estimators=names)).json()
        listed = (await service.client.get("/estimators")).json()["estimators"]

    assert body["provenance"]["entropy_split"] == {"nats": 0.5, "base_rate": 0.25}
    splits = {one["name"]: one["split"] for one in listed if one["split"] is not None}
    assert splits == {"high_semantic_entropy_light": body["provenance"]["entropy_split"]}


SENTENCES = {"mode": "light", "units": "sentences", "prompt": "Capital of Spain?"}


async def test_each_sentence_of_a_light_answer_has_light_scores_of_its_own(tmp_path):
    only = ProbeConfig("", "", saved(tmp_path, "sentence_inconsistency"))
    async with serving(probes=only) as service:
        calls, sequences = service.engine.num_calls, service.engine.num_sequences
        pairs = sum(service.pair_model.batches)
        body = (await service.generate(**SENTENCES)).json()
        again = (await service.generate(**SENTENCES)).json()
        refused = await service.generate(mode="light")

        assert service.engine.num_calls - calls == service.engine.num_sequences - sequences == 1
        assert sum(service.pair_model.batches) == pairs
    answer, *sentences = body["units"]
    assert sentences
    for one in sentences:
        scores = one["scores"]
        assert (one["estimator"], list(scores)) == ("cocoa_sp_light", list(LIGHT_ESTIMATORS))
        assert 0 <= scores["inconsistency_light"] <= 1
        for base in ("sp", "ppl", "mte"):
            expected = scores[base] * scores["inconsistency_light"]
            assert scores[f"cocoa_{base}_light"] == pytest.approx(expected)
        assert one["out_of_domain"] in (True, False)
        assert "support" not in one
    assert (body["estimator"], body["uncertainty"]) == ("sp", answer["scores"]["sp"])
    assert "no probe of whole answers" in body["reasons"]["cocoa_sp_light"]
    assert "probe" not in body["provenance"]
    assert body["provenance"]["sentence_probe"]["training_set"] == "prompts.jsonl"
    assert (again["cached"], again["units"]) == (True, body["units"])
    # Of whole answers there is no probe.
    assert refused.json()["error"]["code"] == "probe_missing"


async def test_sentences_and_their_answer_may_each_have_a_probe(probes, tmp_path):
    both = replace(probes, sentence_inconsistency=saved(tmp_path, "sentence_inconsistency", seed=5))
    async with serving(probes=both) as service:
        body = (await service.generate(**SENTENCES)).json()
        full = {"estimators": ["cocoa_sp", "cocoa_sp_light"], "units": "sentences"}
        beside_samples = (await service.generate(**full)).json()
        fields = (await service.generate(**SENTENCES | {"units": "fields"})).json()

    answer, sentence, *_ = body["units"]
    assert body["estimator"] == sentence["estimator"] == "cocoa_sp_light"
    assert answer["scores"]["inconsistency_light"] != sentence["scores"]["inconsistency_light"]
    assert body["provenance"]["probe"]["id"] != body["provenance"]["sentence_probe"]["id"]
    assert beside_samples["units"][1]["scores"].keys() == {"cocoa_sp", "cocoa_sp_light"}
    assert "sentence_probe" not in fields["provenance"]


async def test_sentences_far_from_the_training_set_are_flagged_each(tmp_path):
    far = ProbeConfig("", "", saved(tmp_path, "sentence_inconsistency", shift=50.0))
    async with serving(probes=far) as service:
        body = (await service.generate(**SENTENCES)).json()

    assert body["units"][1]["out_of_domain"] is True
    assert body["provenance"]["sentence_probe"]["out_of_domain"] is True
    assert "out_of_domain" in body["warnings"]


@pytest.mark.parametrize("has_probes", [True, False])
async def test_without_a_probe_of_sentences_each_has_the_probability_of_its_tokens(
    probes, has_probes
):
    async with serving(probes=probes if has_probes else None) as service:
        body = (await service.generate(**SENTENCES)).json()

    assert body["estimator"] == ("cocoa_sp_light" if has_probes else "sp")
    assert bool(score_reasons(body)) is not has_probes
    for one in body["units"][1:]:
        assert (one["estimator"], one["scores"].keys()) == ("sp", {"sp", "ppl", "mte"})
        assert one["uncertainty"] == one["scores"]["sp"] > 0


async def test_sentences_are_read_in_a_worker_elsewhere_too(tmp_path):
    only = ProbeConfig("", "", saved(tmp_path, "sentence_inconsistency"))
    async with serving(probes=only) as service:
        here = (await service.generate(**SENTENCES)).json()
    async with serving(placement="remote", probes=only) as service:
        there = (await service.generate(**SENTENCES)).json()

    assert there["units"] == here["units"]
    assert there["provenance"]["sentence_probe"] == here["provenance"]["sentence_probe"]
