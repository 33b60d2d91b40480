"""`cocoa probe`: what samples show of many answers, and probes that learn it from hidden states."""
