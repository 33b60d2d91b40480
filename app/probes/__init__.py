"""`cocoa probe`: what samples showed of many answers, beside the hidden states that probes learn it from."""
