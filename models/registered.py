"""What other installed distributions add: they register it by the entry points of their pyproject.

    cocoa.similarities: a pair model with its `load`, as in `models.similarity.PAIR_MODELS`
    cocoa.estimators: a row that `models.estimators.row` makes

The lab adds what the paper compares with by words.
"""

from importlib.metadata import EntryPoint, entry_points

_IN_LAB = ("rouge_l", "jaccard", "lexical_similarity")


def registered(group: str) -> dict[str, EntryPoint]:
    """What is registered under a group, by name; nothing is imported before its `load`."""
    return {point.name: point for point in entry_points(group=group)}


def in_lab(name: str) -> str:
    """What to do about a name of the lab where the lab is not installed; "" for all others."""
    if name not in _IN_LAB:
        return ""
    return f"{name} is the lab's: install the lab (`pip install ./lab` from the checkout)"
