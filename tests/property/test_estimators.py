"""Properties of estimators, each tested on the estimators that have it."""

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.estimators import ESTIMATORS, needs, score
from models.estimators.cocoa import inconsistency_std_error
from models.estimators.information import Undefined

BASES = ["sp", "ppl", "mte"]
logprobs = st.lists(st.floats(-50, 0), min_size=1, max_size=12).map(np.array)


@st.composite
def statistics(draw, min_samples=2, max_samples=6, one_tokenisation=True):
    """Consistent statistics of one request with M samples.

    Samples of one kind have equal texts, and with `one_tokenisation` equal log-probs; those of kind
    4 equal the answer.
    """
    num_samples = draw(st.integers(min_samples, max_samples))
    kind_lists = st.lists(st.integers(0, 4), min_size=num_samples, max_size=num_samples)
    kinds = np.array(draw(kind_lists))
    texts = {kind: draw(logprobs) for kind in range(5)}
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    entailment, contradiction, _ = rng.dirichlet(np.ones(3), (5, 5)).transpose(2, 0, 1)
    similarity = rng.random((5, 5))
    similarity = (similarity + similarity.T) / 2
    # A text entails itself, does not contradict itself, and is wholly similar to itself.
    np.fill_diagonal(entailment, 1.0)
    np.fill_diagonal(contradiction, 0.0)
    np.fill_diagonal(similarity, 1.0)
    pairs = np.ix_(kinds, kinds)
    rows = [texts[kind] if one_tokenisation else draw(logprobs) for kind in kinds]
    return {
        "answer_token_logprobs": texts[4],
        "answer_token_entropies": rng.random(len(texts[4])) * 11,
        "sample_texts": [f"answer {kind}" for kind in kinds],
        "sample_token_logprobs": rows,
        "similarity": similarity[4, kinds],
        "similarity_matrix": similarity[pairs],
        "entailment": entailment[pairs],
        "contradiction": contradiction[pairs],
        "answer_entailment": entailment[4, kinds],
        "answer_contradiction": contradiction[4, kinds],
        "exact_match": (kinds == 4).astype(float),
        "token_relevance": rng.random(len(texts[4])),
        "sample_token_relevance": [rng.random(len(row)) for row in rows],
        "p_true_logprob": draw(st.floats(-20, 0)),
        "reasoning_tokens": float(draw(st.integers(1, 10_000))),
        "closed_book_token_logprobs": -rng.exponential(2.0, len(texts[4])),
        **{name: draw(st.floats(0, 1)) for name in SHARES},
    }


SHARES = ["predicted_dissimilarity", "predicted_high_semantic_entropy", "grounded"]
PER_SAMPLE = ["sample_texts", "sample_token_logprobs", "sample_token_relevance"]
VECTORS = ["similarity", "answer_entailment", "answer_contradiction", "exact_match"]
MATRICES = ["similarity_matrix", "entailment", "contradiction"]


def reordered(stats, order):
    moved = dict(stats)
    for name in PER_SAMPLE:
        moved[name] = [stats[name][i] for i in order]
    moved |= {name: stats[name][order] for name in VECTORS}
    moved |= {name: stats[name][np.ix_(order, order)] for name in MATRICES}
    return moved


def value(name, stats):
    return ESTIMATORS[name].value(stats, {}, {})


def test_the_strategy_supplies_every_statistic():
    of_answer = {"answer_token_logprobs", "answer_token_entropies", "token_relevance"}
    of_samples = {*PER_SAMPLE, *VECTORS, *MATRICES}
    of_question = {"p_true_logprob", "reasoning_tokens", "closed_book_token_logprobs"}
    assert needs(ESTIMATORS) == of_answer | of_samples | of_question | {*SHARES}


# Likelihoods summed over samples or similarities can exceed 1, and densities are negated.
SIGNED = {"semantic_entropy", "semantic_density", "sentence_sar", "sar"}


@pytest.mark.parametrize("name", ESTIMATORS)
@given(stats=statistics())
def test_values_are_finite_and_lie_within_the_range_that_is_told(name, stats):
    low, high = ESTIMATORS[name].range
    found = value(name, stats)

    assert math.isfinite(found)
    assert (low is not None and low >= 0) == (name not in SIGNED)
    assert low is None or found >= low - 1e-9
    assert high is None or found <= high + 1e-9


@pytest.mark.parametrize("name", ESTIMATORS)
@given(stats=statistics(max_samples=4, one_tokenisation=False))
def test_every_order_of_the_samples_gives_the_same_value(name, stats):
    if name == "semantic_entropy":  # whose classes follow the order where this is not transitive
        kinds = np.array(stats["sample_texts"])
        stats = stats | {"entailment": (kinds[:, None] == kinds).astype(float)}
    expected = pytest.approx(value(name, stats), rel=1e-9, abs=1e-9)

    for order in permutations(range(len(stats["similarity"]))):
        assert value(name, reordered(stats, list(order))) == expected


def test_the_probability_of_a_text_is_that_of_its_rows_equal_ones_but_for_noise_once():
    stats = {
        "sample_texts": ["Paris", "Paris", "Rome", "Paris"],
        "sample_token_logprobs": [np.array([one]) for one in (-5.0, -0.5, -1.0, -0.4)],
        "entailment": np.array([[1.0, 1, 0, 1], [1, 1, 0, 1], [0, 0, 1, 0], [1, 1, 0, 1]]),
        "contradiction": np.zeros((4, 4)),
    }
    of_paris = math.log(math.exp(-5) + math.exp(-0.5))

    for order in permutations(range(4)):
        moved = [stats["sample_texts"][i] for i in order]
        rows = [stats["sample_token_logprobs"][i] for i in order]
        entailment = stats["entailment"][np.ix_(order, order)]
        found = ESTIMATORS["semantic_entropy"].function(rows, moved, entailment, np.zeros((4, 4)))
        assert found == pytest.approx(-0.75 * of_paris + 0.25)


@pytest.mark.parametrize("base", BASES)
@given(stats=statistics(min_samples=1))
def test_cocoa_is_its_base_times_inconsistency(base, stats):
    ones, zeros = np.ones_like(stats["similarity"]), np.zeros_like(stats["similarity"])
    u, c = value(base, stats), value("inconsistency", stats)

    assert value(f"cocoa_{base}", stats) == pytest.approx(u * c)
    assert value(f"cocoa_{base}", {**stats, "similarity": ones}) == 0
    assert value(f"cocoa_{base}", {**stats, "similarity": zeros}) == u
    assert value("inconsistency", {**stats, "similarity": ones}) == 0
    assert value("inconsistency", {**stats, "similarity": zeros}) == 1


@pytest.mark.parametrize("base", BASES)
@given(stats=statistics())
def test_additive_cocoa_is_its_base_plus_inconsistency(base, stats):
    ones, zeros = np.ones_like(stats["similarity"]), np.zeros_like(stats["similarity"])
    u = value(base, stats)

    assert value(f"additive_cocoa_{base}", {**stats, "similarity": ones}) == u
    assert value(f"additive_cocoa_{base}", {**stats, "similarity": zeros}) == u + 1


@pytest.mark.parametrize("base", BASES)
@given(stats=statistics())
def test_full_sample_cocoa_lies_between_zero_and_its_base(base, stats):
    num_samples = len(stats["similarity"])
    u = value(base, stats)

    assert 0 <= value(f"full_sample_cocoa_{base}", stats) <= u + 1e-9
    unlike = {**stats, "similarity_matrix": np.eye(num_samples)}
    assert value(f"full_sample_cocoa_{base}", unlike) == pytest.approx(u)


MONOTONE = ["sp", "ppl", "cocoa_sp", "cocoa_ppl", "prob_cocoa_sp", "prob_cocoa_ppl"]
MONOTONE += ["additive_cocoa_sp", "additive_cocoa_ppl"]
MONOTONE += ["root_sp", "cocoa_root_sp"]
MONOTONE += ["full_sample_cocoa_sp", "full_sample_cocoa_ppl"]
MONOTONE += ["mcse", "mcnse", "token_sar", "sentence_sar", "sar"]


@pytest.mark.parametrize("name", MONOTONE)
@given(stats=statistics(), raised=st.floats(0, 5))
def test_a_likelier_token_never_raises_uncertainty(name, stats, raised):
    likelier_answer = stats["answer_token_logprobs"].copy()
    likelier_answer[0] = min(0.0, likelier_answer[0] + raised)
    samples = stats["sample_token_logprobs"]
    likelier = dict(stats)
    likelier["answer_token_logprobs"] = likelier_answer
    likelier["sample_token_logprobs"] = [np.minimum(0.0, array + raised) for array in samples]

    assert value(name, likelier) <= value(name, stats) + 1e-9


@given(stats=statistics())
def test_counts_of_meanings_lie_between_one_and_the_number_of_samples(stats):
    num_samples = len(stats["similarity"])

    assert 1 <= value("num_sem_sets", stats) <= num_samples
    assert 1 - 1e-9 <= value("eigv", stats) <= num_samples + 1e-9
    assert 0 <= value("degmat", stats) < 1


@pytest.mark.parametrize("name", ESTIMATORS)
def test_two_thousand_unlikely_tokens_stay_finite(name):
    samples = 3
    stats = {
        "answer_token_logprobs": np.full(2000, -1.0),
        "answer_token_entropies": np.full(2000, 11.0),
        "sample_texts": [f"{i} word " * 1000 for i in range(samples)],
        "sample_token_logprobs": [np.full(2000, -1.0)] * samples,
        "similarity": np.zeros(samples),
        "similarity_matrix": np.eye(samples),
        "entailment": np.eye(samples),
        "contradiction": 1 - np.eye(samples),
        "answer_entailment": np.zeros(samples),
        "answer_contradiction": np.ones(samples),
        "exact_match": np.zeros(samples),
        "token_relevance": np.zeros(2000),
        "sample_token_relevance": [np.full(2000, 1e-9)] * samples,
        "p_true_logprob": -2000.0,
        "reasoning_tokens": 1e6,
        "closed_book_token_logprobs": np.full(2000, -50.0),
        **dict.fromkeys(SHARES, 1.0),
    }

    assert math.isfinite(value(name, stats))


def one_sample(matches):
    return {
        "answer_token_logprobs": np.array([-1.0]),
        "answer_token_entropies": np.array([0.5]),
        "sample_texts": ["Rome"],
        "sample_token_logprobs": [np.array([-2.0, -1.0])],
        "similarity": np.array([0.25]),
        "similarity_matrix": np.ones((1, 1)),
        "entailment": np.ones((1, 1)),
        "contradiction": np.zeros((1, 1)),
        "answer_entailment": np.array([0.1]),
        "answer_contradiction": np.array([0.8]),
        "exact_match": np.array([float(matches)]),
        "token_relevance": np.array([1.0]),
        "sample_token_relevance": [np.array([1.0, 0.0])],
        "p_true_logprob": math.log(0.5),
        "reasoning_tokens": 60.0,
        "closed_book_token_logprobs": np.array([-3.0]),
        **dict.fromkeys(SHARES, 0.5),
    }


def test_one_sample_defines_all_but_what_compares_samples():
    scores, reasons = score(ESTIMATORS, one_sample(matches=False))

    undefined = {f"full_sample_cocoa_{base}" for base in BASES}
    assert {name for name, number in scores.items() if number is None} == undefined
    assert set(reasons.values()) == {"fewer than 2 samples"}
    assert (scores["degmat"], scores["ce_degmat"]) == (0, 0)
    assert (scores["eigv"], scores["num_sem_sets"]) == (1, 1)
    assert (scores["mcse"], scores["semantic_entropy"]) == (3, 3)


def test_one_sample_has_no_standard_error():
    assert inconsistency_std_error(np.array([0.25])) is None
    assert inconsistency_std_error(np.array([0.0, 1.0])) == pytest.approx(0.5)


def test_identical_samples_that_equal_the_answer_are_certain():
    stats = one_sample(matches=True)
    stats |= {"sample_texts": ["Rome"] * 4, "sample_token_logprobs": [np.array([-1.0])] * 4}
    stats |= {"similarity": np.ones(4), "similarity_matrix": np.ones((4, 4))}
    stats |= {"entailment": np.ones((4, 4)), "contradiction": np.zeros((4, 4))}
    stats |= {"answer_entailment": np.ones(4), "answer_contradiction": np.zeros(4)}
    stats |= {"exact_match": np.ones(4)}
    scores, _ = score(ESTIMATORS.keys() - {"sar"}, stats)

    for name in ("cocoa_sp", "cocoa_ppl", "cocoa_mte", "full_sample_cocoa_sp"):
        assert scores[name] == 0
    assert (scores["degmat"], scores["ce_degmat"]) == (0, 0)
    assert (scores["eigv"], scores["num_sem_sets"]) == (pytest.approx(1), 1)
    assert scores["semantic_density"] == -1


EMPTY = np.array([])


@pytest.mark.parametrize(
    ("name", "stats", "reason"),
    [
        ("sp", {"answer_token_logprobs": EMPTY}, "empty answer"),
        ("ppl", {"answer_token_logprobs": EMPTY}, "empty answer"),
        ("mte", {"answer_token_entropies": EMPTY}, "empty answer"),
        ("token_sar", {"answer_token_logprobs": EMPTY, "token_relevance": EMPTY}, "empty answer"),
        ("cocoa_ppl", {"answer_token_logprobs": EMPTY, "similarity": np.ones(2)}, "empty answer"),
        ("inconsistency", {"similarity": EMPTY}, "no samples"),
        (
            "cocoa_sp",
            {"answer_token_logprobs": np.array([-1.0]), "similarity": EMPTY},
            "no samples",
        ),
        ("mcse", {"sample_token_logprobs": []}, "no samples"),
        ("degmat", {"entailment": np.empty((0, 0))}, "no samples"),
        ("mcnse", {"sample_token_logprobs": [np.array([-1.0]), EMPTY]}, "a sample without tokens"),
        ("mte", {}, "answer_token_entropies is not available"),
        ("sp", {"answer_token_logprobs": np.array([-np.inf])}, "not a finite number"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_undefined_score_is_null_with_its_reason(name, stats, reason):
    assert score([name], stats) == ({name: None}, {name: reason})


def test_a_better_reason_for_an_absent_statistic_is_told():
    reason = "the question exceeds the context"

    scores, reasons = score(["p_true"], {}, absent={"p_true_logprob": reason})

    assert (scores, reasons) == ({"p_true": None}, {"p_true": reason})


def test_the_pure_function_says_why_it_is_undefined():
    with pytest.raises(Undefined, match="empty answer"):
        ESTIMATORS["ppl"].function(EMPTY)


def test_a_certain_answer_scores_plain_zero():
    assert str(ESTIMATORS["sp"].function(np.array([0.0]))) == "0.0"


@given(values=st.lists(st.floats(-50, 0), min_size=1, max_size=60))
def test_over_the_root_of_the_length_lies_between_sum_and_mean(values):
    stats = {"answer_token_logprobs": np.array(values)}
    total, mean = value("sp", stats), value("ppl", stats)
    assert value("root_sp", stats) ** 2 == pytest.approx(total * mean)


@given(stats=statistics())
def test_over_the_root_of_the_length_the_products_have_the_same_inconsistency(stats):
    num_tokens = len(stats["answer_token_logprobs"])
    for name in ("cocoa_{}", "rb_cocoa_{}"):
        expected = value(name.format("sp"), stats) / num_tokens**0.5
        assert value(name.format("root_sp"), stats) == pytest.approx(expected)
