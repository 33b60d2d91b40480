"""`cocoa probe`: what samples showed of many answers, beside the answers' hidden states.

Probes learn the former from the latter.
"""
