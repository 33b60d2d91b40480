"""Names of the quality measures, for a command line that need not import what they compute."""

# In the order of `quality.QUALITY`, which has a function for each.
MEASURES = (
    "exact_match",
    "contains",
    "accuracy",
    "gsm8k",
    "rouge_l",
    "chrf",
    "bleu",
    "align",
    "align_context",
    "comet",
    "fields",
    "facts",
    "run_code",
)
