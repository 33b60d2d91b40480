"""Labels of answers that were served, kept for a calibrator with scores alone."""
