"""AlignScore's scheme over a pair model, in one call, to compare with."""

import numpy as np

from cocoa_lab.alignment import chunks, sentences


def align_scores(model, pairs):
    """How far each pair's first text supports its second: of each sentence the best chunk."""
    cells = []
    for context, claim in pairs:
        cells += [(chunk, one) for one in sentences(claim) for chunk in chunks(context)]
    values = iter(model.score(cells).values[:, 0])
    scores = []
    for context, claim in pairs:
        best = []
        for _ in sentences(claim):
            best.append(max(next(values) for _ in chunks(context)))
        scores.append(np.mean(best))
    return scores
