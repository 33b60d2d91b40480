"""Why scores are null."""


def score_reasons(result):
    """Of a response's reasons those of its scores; there may be one of its confidence, too."""
    return {name: why for name, why in result["reasons"].items() if name in result["scores"]}
