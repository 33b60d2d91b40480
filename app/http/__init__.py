"""The endpoints: bodies to asks, results to responses, errors to statuses, metrics and logs."""
