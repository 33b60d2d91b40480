"""Properties of the Rao-Blackwellised estimators."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.estimators import ESTIMATORS, score

BASES = ["sp", "ppl", "mte"]
NAMES = ["rb_inconsistency", *(f"rb_cocoa_{base}" for base in BASES)]


@st.composite
def statistics(draw, log_mass=(-3.0, 0.0), one_tokenisation=True):
    """Consistent statistics of an answer and M samples of up to five texts, the fifth the answer's.

    Args:
        log_mass: bounds of each text's log-prob.
        one_tokenisation: whether samples of one text have one sequence of log-probs.
    """
    num_samples = draw(st.integers(1, 7))
    kinds = draw(st.lists(st.integers(0, 4), min_size=num_samples, max_size=num_samples))
    similarity = [*draw(st.lists(st.floats(0, 1), min_size=4, max_size=4)), 1.0]
    # Of whole numbers: what differs by less is one row.
    drawn = st.tuples(st.integers(*map(int, log_mass)), st.integers(1, 5))

    def logprobs():
        total, num_tokens = draw(drawn)
        return np.full(num_tokens, total / num_tokens)

    texts = [logprobs() for _ in range(5)]
    answer = texts[4]
    return {
        "answer_token_logprobs": answer,
        "answer_token_entropies": -answer,
        "sample_texts": [f"text {kind}" for kind in kinds],
        "sample_token_logprobs": [texts[k] if one_tokenisation else logprobs() for k in kinds],
        "similarity": np.array([similarity[kind] for kind in kinds]),
        "exact_match": np.array([float(kind == 4) for kind in kinds]),
    }


def value(name, stats):
    return ESTIMATORS[name].value(stats, {}, {})


def by_definition(stats):
    """rb_inconsistency and P as they are written down, one text after the other."""
    total = math.exp(sum(stats["answer_token_logprobs"]))
    seen, weighed = 0.0, set()
    for i, text in enumerate(stats["sample_texts"]):
        row = (text, *stats["sample_token_logprobs"][i])
        if stats["exact_match"][i] or row in weighed:
            continue
        weighed.add(row)
        probability = math.exp(sum(stats["sample_token_logprobs"][i]))
        total += probability
        seen += probability * (1 - stats["similarity"][i])
    if total > 1:
        return seen / total, total
    return seen + (1 - total) * (1 - sum(stats["similarity"]) / len(stats["similarity"])), total


@given(stats=statistics(one_tokenisation=False))
def test_it_is_what_its_definition_says_and_divides_where_the_mass_exceeds_one(stats):
    expected, _ = by_definition(stats)

    assert value("rb_inconsistency", stats) == pytest.approx(expected, abs=1e-12)


def test_above_one_the_sum_is_divided_by_the_mass_alone():
    stats = {
        "answer_token_logprobs": np.log([0.75]),
        "sample_texts": ["a", "a", "b"],
        "sample_token_logprobs": [np.log([0.5]), np.log([0.25]), np.log([0.25])],
        "similarity": np.array([0.0, 0.0, 0.5]),
        "exact_match": np.zeros(3),
    }

    assert value("rb_inconsistency", stats) == pytest.approx((0.5 + 0.25 + 0.25 * 0.5) / 1.75)


@pytest.mark.parametrize("name", NAMES)
@given(stats=statistics(one_tokenisation=False))
def test_similar_samples_leave_no_doubt(name, stats):
    assert value(name, stats | {"similarity": np.ones(len(stats["similarity"]))}) == 0


@pytest.mark.parametrize("name", NAMES)
@given(stats=statistics(log_mass=(-3000.0, -2000.0)))
def test_without_mass_it_is_cocoa(name, stats):
    assert value(name, stats) == value(name.removeprefix("rb_"), stats)


@pytest.mark.parametrize("name", NAMES)
@given(stats=statistics(log_mass=(-40.0, -30.0)))
def test_with_little_mass_it_is_nearly_cocoa(name, stats):
    assert value(name, stats) == pytest.approx(value(name.removeprefix("rb_"), stats), abs=1e-10)


@pytest.mark.parametrize("name", NAMES)
@given(stats=statistics(log_mass=(-2500.0, 0.0), one_tokenisation=False))
def test_it_is_finite_however_unlikely_the_texts_are(name, stats):
    assert math.isfinite(value(name, stats))


@pytest.mark.parametrize("base", BASES)
@given(stats=statistics(log_mass=(-2500.0, 0.0), one_tokenisation=False))
def test_it_lies_between_zero_and_one_and_multiplies_its_base(base, stats):
    weighed = value("rb_inconsistency", stats)

    assert -1e-12 <= weighed <= 1 + 1e-12
    assert value(f"rb_cocoa_{base}", stats) == value(base, stats) * weighed


@pytest.mark.parametrize("name", NAMES)
@given(stats=statistics(one_tokenisation=False), seed=st.integers(0, 1000))
def test_the_order_of_samples_does_not_matter(name, stats, seed):
    order = np.random.default_rng(seed).permutation(len(stats["similarity"]))
    moved = dict(stats)
    for one in ("sample_texts", "sample_token_logprobs"):
        moved[one] = [stats[one][i] for i in order]
    moved |= {one: stats[one][order] for one in ("similarity", "exact_match")}

    assert value(name, moved) == pytest.approx(value(name, stats), abs=1e-9)


@given(stats=statistics(one_tokenisation=False), data=st.data())
def test_a_text_that_is_less_like_the_answer_never_lowers_it(stats, data):
    texts = np.array(stats["sample_texts"])
    chosen = texts == data.draw(st.sampled_from(stats["sample_texts"]))
    kept = data.draw(st.floats(0, 1))
    if stats["exact_match"][chosen].any():
        return
    similarity = np.where(chosen, kept * stats["similarity"], stats["similarity"])
    less = stats | {"similarity": similarity}

    assert value("rb_inconsistency", less) >= value("rb_inconsistency", stats) - 1e-12


@given(stats=statistics(one_tokenisation=False), data=st.data())
def test_similarity_without_the_sample_that_is_the_answer_is_read_rightly(stats, data):
    num_samples = len(stats["sample_texts"])
    chosen = data.draw(st.integers(0, num_samples - 1))
    text, logprobs = stats["sample_texts"][chosen], stats["sample_token_logprobs"][chosen]
    is_text = np.array([one == text for one in stats["sample_texts"]])
    similarity = np.where(is_text, 1.0, stats["similarity"])
    equal = []
    for matches, one in zip(is_text, stats["sample_token_logprobs"], strict=True):
        equal.append(matches and np.array_equal(one, logprobs))
    stats = {
        **stats,
        "answer_token_logprobs": logprobs,
        "similarity": similarity,
        "exact_match": is_text.astype(float),
    }
    total = by_definition(stats)[1]
    others = {**stats, "similarity": np.delete(similarity, equal.index(True))}

    if num_samples == 1:
        reason = {"rb_inconsistency": "no samples"}
        assert score(["rb_inconsistency"], others) == ({"rb_inconsistency": None}, reason)
        return
    # The same texts weigh the same; only the mean over the rest is one over M - 1.
    estimated = (1 - min(total, 1.0)) * (
        value("inconsistency", others) - value("inconsistency", stats)
    )
    expected = pytest.approx(value("rb_inconsistency", stats) + estimated, abs=1e-12)
    assert value("rb_inconsistency", others) == expected


EMPTY = np.array([])
ONE = {
    "answer_token_logprobs": np.array([-1.0]),
    "answer_token_entropies": np.array([0.5]),
    "sample_texts": ["Rome"],
    "sample_token_logprobs": [np.array([-2.0])],
    "similarity": np.array([0.25]),
    "exact_match": np.zeros(1),
}
NO_SAMPLES = {"sample_texts": [], "sample_token_logprobs": []} | dict.fromkeys(
    ("similarity", "exact_match"), EMPTY
)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"answer_token_logprobs": EMPTY, "answer_token_entropies": EMPTY}, "empty answer"),
        (NO_SAMPLES, "no samples"),
        ({"sample_token_logprobs": [EMPTY]}, "a sample without tokens"),
    ],
    ids=["empty answer", "no samples", "a sample without tokens"],
)
def test_an_undefined_score_is_null_with_its_reason(name, changes, reason):
    assert score([name], ONE | changes) == ({name: None}, {name: reason})


@pytest.mark.parametrize("name", NAMES)
def test_unknown_log_probs_leave_no_value(name):
    known = {one: ONE[one] for one in ONE if one != "sample_token_logprobs"}
    reason = "sample_token_logprobs is not available"
    assert score([name], known) == ({name: None}, {name: reason})


def test_one_sample_beside_the_answer_defines_it():
    weighed = math.exp(-2) * 0.75 + (1 - math.exp(-1) - math.exp(-2)) * 0.75
    assert value("rb_inconsistency", ONE) == pytest.approx(weighed)
