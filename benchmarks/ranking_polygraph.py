"""LM-Polygraph's scores of answers that are recorded; called by `ranking.py`.

It runs in a virtual environment of LM-Polygraph's own, which is why it imports nothing of ours.
Answers come as lines of JSON; a line of uncertainties goes out for each.

LM-Polygraph compares texts by a cross-encoder and an NLI model. Here a bi-encoder does, by cosines
of at least 0, and texts whose cosine is .9 or more are of one semantic class.
"""

import json
import sys
from typing import Any

import numpy as np
from lm_polygraph.estimators import SAR, CocoaMSP, CocoaPPL, SemanticEntropy
from sentence_transformers import SentenceTransformer

_OF_ONE_CLASS = 0.9


def main(encoder: str) -> None:
    """Answer lines until there are no more."""
    model = SentenceTransformer(encoder, device="cpu")
    estimators = {
        "CocoaMSP": CocoaMSP(),
        "CocoaPPL": CocoaPPL(),
        "SemanticEntropy": SemanticEntropy(use_unique_responses=True),
        "SAR": SAR(),
    }
    for line in sys.stdin:
        found = statistics(model, json.loads(line))
        scores = {name: float(estimator(found)[0]) for name, estimator in estimators.items()}
        print(json.dumps(scores), flush=True)


def statistics(model: SentenceTransformer, asked: dict[str, Any]) -> dict[str, Any]:
    """What its estimators read, of one answer."""
    texts = [sample["text"] for sample in asked["samples"]]
    shortened = []  # each sample without one of its tokens
    for sample in asked["samples"]:
        tokens = sample["tokens"]
        shortened.append(["".join(tokens[:i] + tokens[i + 1 :]) for i in range(len(tokens))])
    distinct = list(
        {asked["answer"]["text"], *texts, *(text for each in shortened for text in each)}
    )
    rows = model.encode(distinct, normalize_embeddings=True, show_progress_bar=False)
    row_of = dict(zip(distinct, rows, strict=True))
    samples = np.array([row_of[text] for text in texts])
    between = np.clip(samples @ samples.T, 0, 1)
    by_token = []
    for text, others in zip(texts, shortened, strict=True):
        by_token.append(np.clip(np.array([row_of[other] for other in others]) @ row_of[text], 0, 1))
    class_of, members = classes(between)
    return {
        "greedy_log_likelihoods": [asked["answer"]["logprobs"]],
        "greedy_sentence_similarity": [np.clip(samples @ row_of[asked["answer"]["text"]], 0, 1)],
        "sample_texts": [texts],
        "sample_log_probs": [[sum(sample["logprobs"]) for sample in asked["samples"]]],
        "sample_log_likelihoods": [[sample["logprobs"] for sample in asked["samples"]]],
        "sample_sentence_similarity": [between],
        "sample_token_similarity": [by_token],
        "semantic_classes_entail": {"sample_to_class": [class_of], "class_to_sample": [members]},
    }


def classes(between: np.ndarray) -> tuple[dict[int, int], list[list[int]]]:
    """The class of each sample, and the samples of each class, whose first one stands for it."""
    class_of: dict[int, int] = {}
    members: list[list[int]] = []
    for sample, similarities in enumerate(between):
        for number, found in enumerate(members):
            if similarities[found[0]] >= _OF_ONE_CLASS:
                class_of[sample] = number
                found.append(sample)
                break
        if sample not in class_of:
            class_of[sample] = len(members)
            members.append([sample])
    return class_of, members


if __name__ == "__main__":
    main(sys.argv[1])
