"""Mixed clients and a Redis that fails, for seconds; `tests/chaos/soak.py` does it for minutes."""

from tests.chaos.soak import CLIENTS, soak

NUM_KEPT = 8
FAKE = {"COCOA_GENERATION__ENGINE": "gated", "COCOA_SIMILARITY__NAME": "fake"}


def test_mixed_clients_leave_nothing_behind_and_nobody_is_refused_within_their_limits(tmp_path):
    figures = soak(5, tmp_path, FAKE, redis_fails=True)
    print(figures)
    assert figures.wrong == {}
    assert {client for client, _ in figures.outcomes} == set(CLIENTS)
    assert figures.outcomes["crowds", 429] > 0, "limits are counted"
    assert figures.leases == 0
    assert figures.same
    # Connections to the workers are kept for the next calls.
    assert all(after <= before + NUM_KEPT for before, after in figures.files)
