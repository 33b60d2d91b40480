"""Collections on disk: what was written is read back, in order, whatever was cut off."""

import json
from dataclasses import replace

import numpy as np
import pytest

from cocoa_lab.log import AnotherRun
from cocoa_lab.probes.collection import CollectedAnswer, CollectionHeader, CollectionLog, read

HEADER = CollectionHeader(
    prompts="prompts.jsonl",
    model="fake",
    revision="1",
    dtype="float64",
    layers=(1, 2),
    dimension=3,
    sampling={"num_samples": 2},
    seed=0,
    compared_by={"similarity": "fake"},
)


def answer(number, **changes):
    values = {
        "id": f"p{number}",
        "task": "facts",
        "text": "é",
        "num_tokens": 2,
        "scores": {"inconsistency": 0.5},
    }
    return CollectedAnswer(**values | changes)


def features(number):
    return np.full((2, 3), number, dtype=np.float32)


def written(folder, numbers, header=HEADER):
    with CollectionLog(folder, header) as log:
        for position, number in enumerate(numbers):
            log.put(position, [(answer(number), features(number))])


def test_what_was_put_is_read_in_the_order_of_positions(tmp_path):
    with CollectionLog(tmp_path, HEADER) as log:
        for position in (1, 0, 2):
            log.put(position, [(answer(position), features(position))])
    found = read(tmp_path)

    assert found.header == HEADER
    assert [one.id for one in found.answers] == ["p0", "p1", "p2"]
    np.testing.assert_array_equal(found.features[:, 0, 0], [0, 1, 2])


@pytest.mark.parametrize("cut_rows", [0, 5], ids=["whole line", "half line"])
@pytest.mark.parametrize("cut_features", [0, 7], ids=["whole features", "half features"])
def test_a_half_written_answer_is_dropped_and_written_again(tmp_path, cut_rows, cut_features):
    written(tmp_path, [0, 1, 2])
    for name, cut in (("rows.jsonl", cut_rows), ("features.f32", cut_features)):
        data = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(data[: len(data) - cut])
    with CollectionLog(tmp_path, HEADER) as log:
        missing = [number for number in range(4) if f"p{number}" not in log.ids]
        for position, number in enumerate(missing):
            log.put(position, [(answer(number), features(number))])
    found = read(tmp_path)

    assert missing == ([3] if not cut_rows and not cut_features else [2, 3])
    assert [one.id for one in found.answers] == ["p0", "p1", "p2", "p3"]
    np.testing.assert_array_equal(found.features[:, 1, 2], [0, 1, 2, 3])


def test_of_a_prompt_with_several_rows_all_or_none_are_kept(tmp_path):
    def rows(number):
        parts = [answer(number, part=part, num_parts=3) for part in range(3)]
        return [(one, features(one.part)) for one in parts]

    with CollectionLog(tmp_path, HEADER) as log:
        log.put(0, rows(0))
        log.put(1, rows(1))
    lines = (tmp_path / "rows.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "rows.jsonl").write_bytes(b"".join(lines[:5]))
    with CollectionLog(tmp_path, HEADER) as log:
        assert log.ids == {"p0"}
        log.put(0, rows(1))
    found = read(tmp_path)

    assert [(one.id, one.part) for one in found.answers] == [
        (name, part) for name in ("p0", "p1") for part in range(3)
    ]
    np.testing.assert_array_equal(found.features[:, 0, 0], [0, 1, 2] * 2)


def test_prompts_without_an_answer_are_remembered_and_left_out(tmp_path):
    with CollectionLog(tmp_path, HEADER) as log:
        log.put(0, [(answer(0), features(0))])
        log.put(1, [(answer(1, error="prompt_too_long", scores={}), None)])
        log.put(2, [(answer(2), features(2))])
    with CollectionLog(tmp_path, HEADER) as log:
        assert log.ids == {"p0", "p1", "p2"}
    found = read(tmp_path)

    assert [one.id for one in found.answers] == ["p0", "p2"]
    np.testing.assert_array_equal(found.features[:, 0, 0], [0, 2])


@pytest.mark.parametrize(
    "change", [{"seed": 1}, {"revision": "2"}, {"layers": (1, 3)}], ids=lambda c: next(iter(c))
)
def test_the_collection_of_another_run_is_refused_by_its_first_difference(tmp_path, change):
    written(tmp_path, [0])
    with pytest.raises(AnotherRun, match=next(iter(change))):
        CollectionLog(tmp_path, replace(HEADER, **change))


def test_a_folder_without_a_collection_is_refused(tmp_path):
    with pytest.raises(AnotherRun):
        read(tmp_path)
    (tmp_path / "collection.json").write_text(json.dumps({"format": 9}))
    with pytest.raises(AnotherRun, match="format 1"):
        read(tmp_path)


def test_a_file_of_features_without_lines_is_an_empty_collection(tmp_path):
    with CollectionLog(tmp_path, HEADER):
        pass

    assert read(tmp_path).answers == ()
    assert read(tmp_path).features.shape == (0, 2, 3)
