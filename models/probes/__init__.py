"""Probes: what samples would show, predicted from the hidden states of the greedy answer."""
