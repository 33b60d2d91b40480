"""Labels of answers that were served: what an application learns of them, kept for a calibrator.

Neither prompts nor, unless a setting says so, answers are kept: scores are.
"""
