"""UQLM's scores of answers that are recorded; called by `ranking.py`.

It runs in a virtual environment of UQLM's own, and speaks as `ranking_polygraph.py` does. The
complements of its confidences are told. The scorers are used by themselves, since `BlackBoxUQ` may
put a sample in the answer's place.
"""

import json
import sys

from uqlm.black_box import CosineScorer, MatchScorer
from uqlm.white_box.single_logprobs import SingleLogprobsScorer


def main(encoder: str) -> None:
    """Score all answers in one call of each scorer, which sleeps for .1 s a call."""
    answers, samples, logprobs = [], [], []
    for line in map(json.loads, sys.stdin):
        answers.append(line["answer"]["text"])
        samples.append([sample["text"] for sample in line["samples"]])
        logprobs.append([{"token": "", "logprob": one} for one in line["answer"]["logprobs"]])
    confidences = {
        "exact_match": MatchScorer().evaluate(answers, samples),
        "cosine_sim": CosineScorer(transformer=encoder).evaluate(answers, samples),
        "min_probability": SingleLogprobsScorer(["min_probability"]).evaluate(logprobs)[
            "min_probability"
        ],
    }
    for number in range(len(answers)):
        print(json.dumps({name: 1 - float(values[number]) for name, values in confidences.items()}))


if __name__ == "__main__":
    main(sys.argv[1])
