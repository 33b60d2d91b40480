"""What not every deployment needs: a folder each, found by entry points as anybody's plugin is."""
