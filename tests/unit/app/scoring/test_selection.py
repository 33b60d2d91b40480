"""Which sample is y*."""

import numpy as np

from app.scoring.selection import mbr, most_probable, most_probable_normalized

SAMPLES = [
    np.array([-1.0, -1.0, -1.0]),
    np.array([-2.5]),
    np.array([-1.0, -1.0, -1.0]),
    np.array([-2.5]),
]


def test_most_probable_has_the_highest_sum_and_normalised_the_highest_mean():
    assert most_probable(SAMPLES) == 1
    assert most_probable_normalized(SAMPLES) == 0


def test_mbr_is_most_like_the_others_and_ignores_the_diagonal():
    matrix = np.array([[1.0, 0.1, 0.2], [0.1, 0.0, 0.9], [0.2, 0.9, 1.0]])

    assert mbr(matrix) == 2
    assert mbr(matrix[:2, :2]) == 0
    assert mbr(np.ones((1, 1))) == 0


def test_ties_go_to_the_lowest_index():
    assert mbr(np.ones((3, 3))) == 0
    assert most_probable([np.array([-1.0])] * 3) == 0


def test_samples_of_equal_text_tie_in_mbr_however_their_rows_add_up():
    rng = np.random.default_rng(0)
    for _ in range(200):
        kinds = rng.integers(0, 4, 10).tolist()
        similarity = rng.random((4, 4))
        similarity = (similarity + similarity.T) / 2
        np.fill_diagonal(similarity, 1.0)
        chosen = mbr(similarity[np.ix_(kinds, kinds)])
        assert chosen == kinds.index(kinds[chosen])
