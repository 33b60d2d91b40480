"""The arithmetic of `cocoa size`."""

import json
from dataclasses import replace
from pathlib import Path

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.cli.sizing import (
    SHIPPED,
    CostsInvalid,
    Row,
    Traffic,
    bottleneck,
    chart_values,
    chosen_row,
    fitted,
    mix_of,
    needs_of,
    requests_at_once,
    rows_in,
    savings,
)

SCHEMA = Path(__file__).parents[4] / "helm" / "cocoa" / "values.schema.json"
ROWS = {
    "gateway": Row({"request": 0.005, "cached_request": 0.001}, "by hand", resident_mb=100),
    "generation": Row({"prompt_token": 0.0001, "step": 0.001, "generated_token": 0.001}, "by hand"),
    "similarity": Row({"pair": 0.01, "pair_token": 0.001}, "by hand", resident_mb=500),
}
FULL = Traffic(2.0, {"full": 1.0}, num_samples=10, prompt_tokens=100, answer_tokens=20)


def seconds(traffic, rows=ROWS):
    return {part: need.seconds for part, need in needs_of(traffic, rows, 1, 0.5).items()}


def test_a_full_request_costs_what_each_part_of_its_work_costs():
    assert seconds(FULL) == pytest.approx(
        {
            "gateway": 0.005,
            "generation": 100 * 0.0001 + 20 * 0.001 + 11 * 20 * 0.001,
            "similarity": 20 * (0.01 + 40 * 0.001),
        }
    )


def test_a_light_request_is_one_row_and_no_pair_and_a_cached_one_is_the_gateways_alone():
    assert seconds(replace(FULL, mix={"light": 1.0})) == pytest.approx(
        {"gateway": 0.005, "generation": 0.05, "similarity": 0}
    )
    assert seconds(replace(FULL, mix={"cached": 1.0})) == pytest.approx(
        {"gateway": 0.001, "generation": 0, "similarity": 0}
    )


def test_pods_keep_their_devices_as_busy_as_is_wanted():
    needs = needs_of(FULL, ROWS, cpus=2, busy=0.5)
    # 2/s of .005, .25 and 1 s, on one, two and two processors that are busy half of the time
    assert {part: need.pods for part, need in needs.items()} == {
        "gateway": 1,
        "generation": 1,
        "similarity": 2,
    }
    assert bottleneck(needs) == "similarity"
    assert needs["similarity"].pod_rate == pytest.approx(2)


def test_a_server_with_a_gpu_is_one_device_however_many_cpus_it_has():
    rows = ROWS | {"generation": Row({"generated_token": 0.0002}, "by hand", device="gpu")}
    need = needs_of(replace(FULL, rate=40), rows, cpus=8, busy=1)["generation"]
    assert (need.pods, need.cpus) == (2, 1)
    assert need.pod_rate == pytest.approx(1 / (11 * 20 * 0.0002))


GROWING = ("rate", "num_samples", "prompt_tokens", "answer_tokens", "further_pairs")
AMOUNTS = st.floats(1, 64)


@given(
    name=st.sampled_from(GROWING),
    amounts=st.tuples(AMOUNTS, AMOUNTS),
    full=st.floats(0, 1),
    others=st.dictionaries(st.sampled_from(GROWING), AMOUNTS),
)
def test_more_of_anything_never_wants_fewer_pods(name, amounts, full, others):
    mix = {"full": full, "light": 1 - full}
    less, more = (
        needs_of(Traffic(**({"rate": 1.0, "mix": mix} | others | {name: amount})), ROWS, 1, 0.7)
        for amount in sorted(amounts)
    )
    for part in ROWS:
        assert less[part].pods <= more[part].pods
        assert less[part].pod_rate >= more[part].pod_rate


@given(full=st.floats(0, 1), rate=st.floats(0.1, 100))
def test_what_is_told_as_a_saving_costs_no_part_more_work(full, rate):
    traffic = replace(FULL, rate=rate, mix={"full": full, "light": 1 - full})
    for other in savings(traffic).values():
        assert sum(other.mix.values()) == pytest.approx(1)
        for part, cost in seconds(other).items():
            assert cost <= seconds(traffic)[part] * (1 + 1e-9)


@pytest.mark.parametrize(
    ("traffic", "expected"),
    [(FULL, 23), (replace(FULL, prompt_tokens=4000), 2), (replace(FULL, prompt_tokens=20_000), 0)],
    ids=["by rows", "by tokens", "none"],
)
def test_the_bounds_of_a_worker_say_how_many_requests_it_decodes_at_once(traffic, expected):
    assert requests_at_once(traffic) == expected


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_the_values_are_such_as_the_chart_takes(device):
    row = Row({"generated_token": 0.1}, "by hand", device=device, settings={"model": "a/b"})
    large = replace(ROWS["similarity"], resident_mb=3000)
    rows = ROWS | {"generation": row, "similarity": large}
    values = chart_values(needs_of(FULL, rows, cpus=1.5, busy=0.5))
    jsonschema_rs.validator_for(json.loads(SCHEMA.read_text())).validate(values)
    assert values["generation"] == {"model": "a/b"}
    assert values["similarityWorker"]["replicas"] == 3
    assert values["similarityWorker"]["resources"]["limits"] == {"memory": "3072Mi"}
    assert "limits" not in values["gateway"]["resources"], "the chart has enough"
    assert values.get("vllm", {}).get("enabled", False) == (device == "gpu")


def test_blocks_of_known_cost_give_their_costs_back():
    costs = {"request": 0.004, "step": 0.002, "pair": 0.0}
    work = []
    for request, step, pair in [(10, 10, 0), (10, 200, 0), (5, 50, 100), (7, 80, 10)]:
        work.append({"request": request, "step": step, "pair": pair})
    took = [sum(one[unit] * cost for unit, cost in costs.items()) for one in work]
    found = fitted(work, took, ["request", "step", "pair"])
    assert found == pytest.approx(costs, abs=1e-9) or found == pytest.approx(
        {"request": 0.004, "step": 0.002}
    )


def test_nothing_is_fitted_to_cost_less_than_nothing():
    work = [{"a": 1, "b": 1}, {"a": 1, "b": 2}, {"a": 2, "b": 3}]
    found = fitted(work, [2.0, 1.0, 4.0], ["a", "b"])
    assert found
    assert all(cost >= 0 for cost in found.values())


def test_the_shipped_rows_can_be_used_and_say_how_they_were_measured():
    rows = rows_in(SHIPPED.read_text())
    assert set(rows) == set(ROWS)
    for named in rows.values():
        for row in named.values():
            assert "20" in row.measured


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a", "no TOML"),
        ("[gate.x]", "gate"),
        ('[gateway.x]\nmeasured = "x"\nseconds = {request = -1}', "gateway.x.seconds.request"),
        ('[gateway.x]\nmeasured = "x"\nseconds = {request = nan}', "gateway.x.seconds.request"),
        ('[gateway.x]\nmeasured = "x"\nseconds = {minutes = 1}', "gateway.x.seconds.minutes"),
        ("[gateway.x]\nseconds = {}", "gateway.x.measured"),
        ('[gateway.x]\nmeasured = "x"\nseconds = {}\nmemory = 1', "gateway.x.memory"),
    ],
)
def test_a_file_of_costs_that_cannot_be_used_is_refused_by_its_entry(text, message):
    with pytest.raises(CostsInvalid, match=message):
        rows_in(text)


def test_a_row_is_the_named_one_or_the_first_and_an_unknown_one_is_refused():
    rows = {"roberta": ROWS["similarity"], "other": ROWS["gateway"]}
    assert chosen_row(rows, "other") is ROWS["gateway"]
    assert chosen_row(rows, None) is ROWS["similarity"]
    with pytest.raises(CostsInvalid, match="did you mean roberta"):
        chosen_row(rows, "robreta")


@pytest.mark.parametrize("text", ["", "full:.5", "full:.5,full:.5", "ful:1", "full:nan", "full:2"])
def test_a_mix_that_is_none_is_refused(text):
    with pytest.raises(ValueError, match="must be"):
        mix_of(text)


def test_a_mix_has_shares_of_kinds():
    assert mix_of("full:.8, light:.2") == {"full": 0.8, "light": 0.2}
    assert mix_of("light") == {"light": 1.0}
