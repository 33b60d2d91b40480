"""Pure: labels of one way of asking that several runs have left, as one set of them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from cocoa_lab.calibration.labels import Labelled, Labels
from models.calibration import Binding
from models.records import Array


def pooled(sources: Mapping[str, Sequence[Labelled]]) -> list[Labelled]:
    """Labels of each way of asking, those of all sources together.

    Args:
        sources: labels by what they are. Of answers to one prompt the first counts, and parts of
            all answers to it are as of one answer, as within a run.
    """
    pools: list[Labelled] = []
    for source, labelled in sources.items():
        for part in labelled:
            part = replace(part, sources=(source,))
            for place, pool in enumerate(pools):
                if _are_of_one_way(pool, part):
                    pools[place] = _together(pool, part)
                    break
            else:
                pools.append(part)
    return pools


def _are_of_one_way(one: Labelled, other: Labelled) -> bool:
    """Whether their scores compare; what a probe predicts is known where one of them had it."""
    first, second = one.bindings[0], other.bindings[0]
    for name in first.probes.keys() & second.probes.keys():
        if first.probes[name] != second.probes[name]:
            return False
    return one.labels.axis == other.labels.axis and _of_any_run(first) == _of_any_run(second)


def _of_any_run(binding: Binding) -> Binding:
    return replace(binding, share_cut=0.0, probes={})


def _together(one: Labelled, other: Labelled) -> Labelled:
    first, second = one.labels, other.labels
    prompts = [*_prompts_of(first, "one"), *_prompts_of(second, "other")]
    rows = np.arange(len(prompts))
    answers = None
    if first.answers is None:
        rows = np.unique(prompts, return_index=True)[1]  # the first of each prompt
        rows.sort()
    else:
        answers = np.unique(prompts, return_inverse=True)[1]
    scores: dict[str, Array] = {}
    for name in {**first.scores, **second.scores}:
        both = _scores_of(first, name), _scores_of(second, name)
        scores[name] = np.concatenate(both)[rows]
    tasks, ids = [*first.tasks, *second.tasks], [*first.ids, *second.ids]
    labels = Labels(
        [tasks[row] for row in rows],
        np.concatenate([first.correct, second.correct])[rows],
        scores,
        [ids[row] for row in rows] if len(ids) == len(tasks) else (),
        answers,
        first.axis,
        [prompts[row] for row in rows],
    )
    sources = dict.fromkeys((*one.sources, *other.sources))
    num_repeats = one.num_repeats + other.num_repeats + len(prompts) - len(rows)
    return Labelled(labels, _bindings(one, other), tuple(sources), num_repeats)


def _prompts_of(labels: Labels, name: str) -> Sequence[str]:
    """What tells prompts apart; where they are not known, each answer is to one of its own."""
    if labels.prompts:
        return labels.prompts
    answers = labels.answers
    if answers is None:
        answers = np.arange(len(labels.correct))
    return [f"{name} {answer}" for answer in answers]


def _scores_of(labels: Labels, name: str) -> Array:
    """The scores (n,) of one name, NaN where there are none."""
    return labels.scores.get(name, np.full(len(labels.correct), np.nan))


def _bindings(one: Labelled, other: Labelled) -> tuple[Binding, ...]:
    """All that have these scores, with the probes and the mean share of cut answers of both."""
    counts = len(one.labels.correct), len(other.labels.correct)
    shares = one.bindings[0].share_cut, other.bindings[0].share_cut
    share_cut = float(np.average(shares, weights=counts))
    probes = {**one.bindings[0].probes, **other.bindings[0].probes}
    found: list[Binding] = []
    for binding in (*one.bindings, *other.bindings):
        binding = replace(binding, share_cut=share_cut, probes=probes)
        if binding not in found:
            found.append(binding)
    return tuple(found)
