"""What a request may say to the plugin."""

import pytest
from cocoa_vllm.columns import complaint, mode_of

LEAST = [("entropy", 2), ("light", 4), ("identity", 6)]


@pytest.mark.parametrize("extra_args", [None, {}, {"session_id": "1"}, {"cocoa": "half"}])
def test_who_names_no_mode_has_none(extra_args):
    assert mode_of(extra_args) is None


@pytest.mark.parametrize("extra_args", [None, {}, {"session_id": "1"}])
def test_who_does_not_opt_in_is_not_complained_of(extra_args):
    assert complaint(extra_args, None) is None


@pytest.mark.parametrize("wanted", ["half", "", 1, ["light"], "Light"])
def test_an_unknown_mode_is_refused_with_those_there_are(wanted):
    assert "entropy, identity, light" in complaint({"cocoa": wanted}, 20)


@pytest.mark.parametrize(("mode", "least"), LEAST)
def test_a_mode_needs_as_many_logprobs_as_its_shortest_reply_has_columns(mode, least):
    assert complaint({"cocoa": mode}, least) is None
    for too_few in (None, 0, least - 1, -1):
        assert f"at least {least}" in complaint({"cocoa": mode}, too_few)
