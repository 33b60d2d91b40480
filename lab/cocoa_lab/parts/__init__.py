"""Evaluation of the parts of answers: how well their scores tell right ones from wrong ones."""
