"""From labelled results to a calibrator: what a score is worth, and up to where to trust it."""
