"""What plugins add to the tables of models, "module:name" by name; `app.installed` hands it over.

The lab adds what the paper compares with by words.
"""

# Pair models with their `load`, as in `models.similarity.PAIR_MODELS`; they are always loaded.
SIMILARITIES: dict[str, str] = {}
# Rows that `models.estimators.row` makes.
ESTIMATORS: dict[str, str] = {}

_IN_LAB = ("rouge_l", "jaccard", "lexical_similarity")


def instead_of(name: str) -> str:
    """What to do about a name of the lab, where that is not installed; "" for other names."""
    if name not in _IN_LAB:
        return ""
    return f"{name} is the lab's: install the lab (`pip install ./lab` from the checkout)"
