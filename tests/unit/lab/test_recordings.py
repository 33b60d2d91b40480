"""The file of generations: what is written comes back, whatever was cut off."""

from dataclasses import replace

import numpy as np
import pytest

from cocoa_lab.log import AnotherRun
from cocoa_lab.recordings import Recording, RecordingHeader, RecordingLog, read
from models.records import Generation, Sequence

HEADER = RecordingHeader(
    dataset="testbed",
    model="fake",
    revision="1",
    seed=0,
    sampling={"num_samples": 2, "temperature": 1.0, "top_k": 50, "top_p": 1.0},
    statistics=("answer_token_logprobs", "sample_texts"),
    asks_p_true=True,
)


def a_recording(number):
    answer = Sequence(
        text=" Zürich\n",
        compared_text="Zürich",
        num_tokens=2,
        finish_reason="stop",
        token_ids=(3, 1),
        token_logprobs=np.array([-0.1, -1 / 3]),
        token_texts=(" Zürich", ""),
    )
    sample = replace(answer, text="", compared_text="", token_logprobs=None, finish_reason="length")
    generation = Generation(
        answer, (sample, answer), 7, seed=2**48 - 1, model_id="fake", revision="1"
    )
    return Recording(f"x-{number}", "Where?", generation, {"Zürich": (-0.5, None), "": None})


def log(path, header=HEADER):
    return RecordingLog(path, header)


def ids(path):
    return list(read(path)[1])


def test_a_record_comes_back_as_it_was(tmp_path):
    path = tmp_path / "generations.jsonl"
    with log(path) as out:
        out.append(a_recording(0))
        out.append(Recording("x-1", "Long", None, error="prompt_too_long"))
    header, recordings = read(path)
    assert header == HEADER
    assert recordings["x-1"] == Recording("x-1", "Long", None, error="prompt_too_long")
    found, wrote = recordings["x-0"], a_recording(0)
    np.testing.assert_array_equal(
        found.generation.answer.token_logprobs, wrote.generation.answer.token_logprobs, strict=True
    )
    assert found.true_false == wrote.true_false
    assert found.generation.samples[0] == wrote.generation.samples[0]
    assert found.generation.answer.token_texts == (" Zürich", "")


@pytest.mark.parametrize("cut", [1, 40], ids=["the newline alone", "half a line"])
def test_a_half_written_last_line_is_dropped_and_written_anew(tmp_path, cut):
    path = tmp_path / "generations.jsonl"
    with log(path) as out:
        for number in range(3):
            out.append(a_recording(number))
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    with log(path) as out:
        assert list(out.recordings) == ["x-0", "x-1"]
        out.append(a_recording(2))
    assert path.read_bytes() == whole


def test_a_half_written_header_is_as_no_file(tmp_path):
    path = tmp_path / "generations.jsonl"
    path.write_text('{"dataset": "te')
    with log(path) as out:
        assert out.recordings == {}
    assert read(path) == (HEADER, {})


def test_a_run_without_p_true_may_go_on_with_a_file_that_has_it_and_no_other_way_round(tmp_path):
    with_it, without = tmp_path / "with", tmp_path / "without"
    with log(with_it), log(without, replace(HEADER, asks_p_true=False)):
        pass
    with log(with_it, replace(HEADER, asks_p_true=False)) as out:
        assert out.header.asks_p_true
    with pytest.raises(AnotherRun, match="asks_p_true"):
        log(without)


def test_a_file_of_another_kind_is_refused(tmp_path):
    path = tmp_path / "generations.jsonl"
    for content in ('{"id": "x"}\n', "[1]\n", "no JSON\n"):
        path.write_text(content)
        with pytest.raises(AnotherRun, match="no file of generations"):
            log(path)


def test_a_line_that_is_damaged_is_named(tmp_path):
    path = tmp_path / "generations.jsonl"
    with log(path) as out:
        out.append(a_recording(0))
    path.write_text(path.read_text() + '{"id": "x"}\n')
    with pytest.raises(AnotherRun, match=r"generations\.jsonl, line 3: it is damaged"):
        read(path)


@pytest.mark.parametrize("bounds", ["null", "[0.5,1.25]"])
def test_bounds_of_entropies_that_older_files_have_are_passed_over(tmp_path, bounds):
    path = tmp_path / "generations.jsonl"
    with log(path) as out:
        out.append(a_recording(0))
    whole = path.read_text()
    path.write_text(whole.replace('"absent":', f'"mte_bounds":{bounds},"absent":'))
    assert "mte_bounds" in path.read_text()
    _, found = read(path)
    assert list(found) == [a_recording(0).id]
