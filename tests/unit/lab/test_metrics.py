import dataclasses
import functools
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from cocoa_lab.metrics import (
    Interval,
    auroc,
    bootstrap,
    drop_undefined,
    ece,
    expected_ece,
    prr,
    rejection_curve,
    reliability,
)

# Few distinct uncertainties give ties, many give none; qualities likewise.
UNCERTAINTIES = st.one_of(st.integers(0, 4), st.integers(-1000, 1000))
QUALITIES = st.one_of(st.sampled_from([0.0, 1.0]), st.integers(0, 1000).map(lambda i: i / 1000))
ROWS = st.lists(st.tuples(UNCERTAINTIES, QUALITIES), min_size=4, max_size=40)
BINARY_ROWS = st.lists(
    st.tuples(UNCERTAINTIES, st.sampled_from([0.0, 1.0])), min_size=2, max_size=40
)
CONFIDENT_ROWS = st.lists(
    st.tuples(st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0, 1)), st.booleans()),
    min_size=1,
    max_size=60,
)


def columns(rows):
    return tuple(np.array(column, dtype=float) for column in zip(*rows, strict=True))


def same(a, b):
    return (a is None and b is None) or a == pytest.approx(b, abs=1e-9)


def kept_quality(uncertainty, quality, num_kept):
    """Expected mean quality of the most certain rows, by counting, with ties broken randomly."""
    total = 0.0
    for u, q in zip(uncertainty, quality, strict=True):
        below = sum(other < u for other in uncertainty)
        tied = sum(other == u for other in uncertainty)
        total += q * min(max((num_kept - below) / tied, 0), 1)
    return total / num_kept


def brute_force_prr(uncertainty, quality, num_rejected):
    """By definition, in O(n²) for every number of rows kept."""
    kept = range(len(quality) - num_rejected + 1, len(quality) + 1)
    area = sum(kept_quality(uncertainty, quality, k) for k in kept) / num_rejected
    oracle = sum(kept_quality(-quality, quality, k) for k in kept) / num_rejected
    random = sum(quality) / len(quality)
    return None if abs(oracle - random) < 1e-12 else (area - random) / (oracle - random)


@given(ROWS, st.sampled_from([0.5, 0.25, 1.0]))
def test_prr_equals_brute_force(rows, max_rejection):
    u, q = columns(rows)

    assert same(prr(u, q, max_rejection), brute_force_prr(u, q, int(len(q) * max_rejection)))


@given(ROWS)
def test_a_monotone_transformation_of_the_uncertainty_does_not_change_prr(rows):
    u, q = columns(rows)

    for transformed in (u**3, np.exp(u / 100), 8 * u - 5, np.where(u == u.max(), np.inf, u)):
        assert prr(transformed, q) == prr(u, q)


@pytest.mark.parametrize("num_rows", [0, 1, 2, 3])
def test_prr_of_fewer_than_4_rows_is_undefined(num_rows):
    assert prr(np.arange(num_rows), np.arange(num_rows) % 2) is None


def test_the_number_of_rejected_rows_is_exact():
    # 0.29 * 100 is 28.999999999999996.
    u, q = np.arange(100.0), np.arange(100) % 3 == 0

    assert prr(u, q, 0.29) == pytest.approx(brute_force_prr(u, q.astype(float), 29), abs=1e-12)


def test_rows_of_undefined_quality_are_dropped_and_counted():
    u, q = [3.0, 1.0, 2.0, 9.0, 4.0], [0.2, 1.0, 0.9, np.nan, 0.1]

    assert drop_undefined(u, q)[2] == 1
    assert prr(u, q) == prr(np.delete(u, 3), np.delete(q, 3))


@pytest.mark.parametrize(
    ("scores", "quality", "message"),
    [
        pytest.param([1.0, np.nan], [1, 0], "NaN or -inf", id="nan"),
        pytest.param([1.0, -np.inf], [1, 0], "NaN or -inf", id="minus infinity"),
        pytest.param(
            [1.0, np.nan], [1, np.nan], "NaN or -inf", id="nan where the quality is undefined"
        ),
        pytest.param([1.0, 2.0], [1, np.inf], "infinite", id="infinite quality"),
        pytest.param([1.0, 2.0], [1], "one length", id="lengths"),
    ],
)
def test_impossible_rows_are_refused(scores, quality, message):
    for metric in (prr, auroc if message != "infinite" else prr):
        with pytest.raises(ValueError, match=message):
            metric(scores, quality)


@given(ROWS, st.integers(1, 50))
def test_the_rejection_curve_is_the_mean_quality_of_those_kept(rows, num_points):
    u, q = columns(rows)

    shares, means = rejection_curve(u, q, num_points)

    assert shares.shape == means.shape == (num_points,)
    for share, mean in zip(shares, means, strict=True):
        assert mean == pytest.approx(kept_quality(u, q, round((1 - share) * len(q))), abs=1e-9)


def test_the_rejection_curve_of_no_rows_is_refused():
    with pytest.raises(ValueError, match="no row"):
        rejection_curve([1.0], [np.nan], 5)


@given(BINARY_ROWS)
def test_auroc_is_scikit_learns(rows):
    u, correct = columns(rows)

    if len(set(correct)) == 1:
        assert auroc(u, correct) is None
    else:
        assert auroc(u, correct) == pytest.approx(roc_auc_score(1 - correct, u), abs=1e-12)


def test_auroc_takes_infinite_uncertainty_and_drops_undefined_correctness():
    assert auroc([1.0, np.inf, 2.0], [1, 0, np.nan]) == 1.0


def test_auroc_is_for_binary_quality_only():
    with pytest.raises(ValueError, match="0 or 1"):
        auroc([1.0, 2.0], [0.3, 1.0])


def brute_force_ece(confidence, correct, num_bins):
    """Row by row; the correctness of a row is the mean over the rows of equal confidence."""
    n = len(confidence)
    gaps = [c - correct[confidence == c].mean() for c in sorted(confidence)]
    bounds = [int(n * b / min(num_bins, n)) for b in range(min(num_bins, n) + 1)]
    return sum(abs(sum(gaps[low:high])) for low, high in itertools.pairwise(bounds)) / n


@given(CONFIDENT_ROWS, st.sampled_from([1, 3, 10]))
def test_ece_equals_brute_force(rows, num_bins):
    confidence, correct = columns(rows)
    expected = brute_force_ece(confidence, correct, num_bins)

    assert ece(confidence, correct, num_bins) == pytest.approx(expected, abs=1e-9)


def test_reliability_has_bins_of_equal_mass():
    confidence = np.linspace(0, 1, 25)

    means, shares, counts = reliability(confidence, confidence > 0.5, num_bins=4)

    assert counts.tolist() == [6, 6, 6, 7]
    first, second, third = confidence[:6], confidence[6:12], confidence[12:18]
    assert means == pytest.approx([first.mean(), second.mean(), third.mean(), 0.875])
    assert shares == pytest.approx([0, 0, 5 / 6, 1])


def test_expected_ece_is_that_of_a_perfectly_calibrated_confidence():
    rng = np.random.default_rng(1)
    confidence = rng.random(300)
    drawn = [ece(confidence, rng.random(300) < confidence) for _ in range(2000)]

    expected = expected_ece(confidence, np.ones(300), num_draws=2000)

    assert expected == pytest.approx(np.mean(drawn), abs=4 * np.std(drawn) / np.sqrt(1000))
    assert expected == expected_ece(confidence, np.zeros(300), num_draws=2000)
    assert expected != expected_ece(confidence, np.ones(300), num_draws=2000, seed=1)


@pytest.mark.parametrize("metric", [ece, expected_ece, auroc])
def test_a_metric_of_no_rows_is_undefined(metric):
    assert metric([0.5], [np.nan]) is None


@pytest.mark.parametrize("metric", [ece, expected_ece, reliability])
def test_a_confidence_outside_0_to_1_is_refused(metric):
    with pytest.raises(ValueError, match="outside"):
        metric([0.5, 1.5], [0, 1])


def draws(num_rows, num_resamples, seed):
    return np.random.default_rng(seed).integers(num_rows, size=(num_resamples, num_rows))


@pytest.fixture
def scored():
    """Uncertainties of two estimators, the second with ties, and binary qualities."""
    rng = np.random.default_rng(3)
    correct = (rng.random(60) < 0.6).astype(float)
    return rng.normal(size=60) - correct, np.round(rng.normal(size=60) - correct / 2), correct


@pytest.mark.parametrize("metric", [prr, auroc])
def test_the_bootstrap_of_all_resamples_at_once_equals_one_after_another(metric, scored):
    _, u, q = scored
    values = [metric(u[rows], q[rows]) for rows in draws(60, 200, 7)]

    interval = bootstrap(metric, u, q, num_resamples=200, seed=7)

    assert interval.value == metric(u, q)
    low, high = np.percentile(values, [2.5, 97.5])
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=1e-12)
    # A metric that `bootstrap` does not recognise is computed one resample after another.
    unrecognised = bootstrap(functools.partial(metric), u, q, num_resamples=200, seed=7)
    assert dataclasses.astuple(unrecognised) == pytest.approx(dataclasses.astuple(interval))


def test_resamples_in_which_a_metric_is_undefined_are_left_out():
    u, q = [1.0, 2.0, 3.0], [1.0, 1.0, 0.0]

    assert bootstrap(auroc, u, q, num_resamples=50) == Interval(1.0, 1.0, 1.0)


def test_an_undefined_metric_has_no_interval():
    assert bootstrap(prr, np.arange(10.0), np.ones(10)) is None


def test_large_samples_are_resampled_in_parts(monkeypatch, scored):
    monkeypatch.setattr("cocoa_lab.metrics._MAX_RESAMPLED_CELLS", 60 * 30)
    _, u, q = scored
    rng = np.random.default_rng(0)
    parts = np.concatenate([rng.integers(60, size=(size, 60)) for size in (30, 30, 20)])

    interval = bootstrap(prr, u, q, num_resamples=80)

    expected = np.percentile([prr(u[rows], q[rows]) for rows in parts], [2.5, 97.5])
    assert (interval.low, interval.high) == pytest.approx(tuple(expected), abs=1e-12)
