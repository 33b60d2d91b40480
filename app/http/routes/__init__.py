"""HTTP handlers; each under ten lines."""
