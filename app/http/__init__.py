"""The HTTP door: bodies to asks, results to responses, errors to statuses, metrics and logs."""
