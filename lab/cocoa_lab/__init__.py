"""All that is done offline: measuring scores on datasets, and training and measuring probes."""
