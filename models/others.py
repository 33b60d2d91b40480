"""What plugins add to the tables of models, "module:name" by name; `app.installed` hands it over.

The lab adds what the paper compares with by words.
"""

# Pair models with their `load`, as in `models.similarity.PAIR_MODELS`; they are always loaded.
SIMILARITIES: dict[str, str] = {}
# Rows that `models.estimators.row` makes.
ESTIMATORS: dict[str, str] = {}

_IN_LAB = ("rouge_l", "jaccard", "lexical_similarity")
_RENAMED = ("consistency", "consistency_light", "rb_consistency")


def instead_of(name: str) -> str:
    """What to do about a name that is gone, or the lab's where that is not installed; else ""."""
    if name.startswith("unseen_rb_"):
        return f"{name} is gone: {name.removeprefix('unseen_')} ranks answers as well"
    if name in _RENAMED:
        return f"{name} is called {name.replace('consistency', 'inconsistency')}"
    if name not in _IN_LAB:
        return ""
    return f"{name} is the lab's: install the lab (`pip install ./lab` from the checkout)"
