"""Every estimator once more, by its definition in plain Python floats: the origin of golden values.

    python -m tests.golden.plain NAME...  # adds these estimators' values to estimators.json

A new estimator is written down here first, from its formula and not from its code, one loop where
the formula has a sum. Statistics come as JSON has them; None is a value that is not defined.
"""

import json
import math
import sys
from pathlib import Path

import numpy as np

from models.estimators import ESTIMATORS

FOLDER = Path(__file__).parent


def mean(values):
    return sum(values) / len(values)


def sp(s):
    return -sum(s["answer_token_logprobs"])


def ppl(s):
    return -mean(s["answer_token_logprobs"])


def mte(s):
    return mean(s["answer_token_entropies"])


def inconsistency(s):
    return mean([1 - one for one in s["similarity"]])


def full_sample(s):
    matrix = s["similarity_matrix"]
    if len(matrix) < 2:
        return None
    return mean([1 - row[j] for i, row in enumerate(matrix) for j in range(len(row)) if i != j])


def remaining(s):
    with_them, without = s["answer_token_logprobs"], s["closed_book_token_logprobs"]
    if not with_them:
        return None
    least = 0.05 * len(with_them)
    return min(1, (least - sum(with_them)) / (least - sum(without)))


def light(s):
    return s["predicted_dissimilarity"]


def found(s):
    """Probability and dissimilarity of the answer and of each distinct row that is not its text."""
    pairs, rows = [(math.exp(sum(s["answer_token_logprobs"])), 0.0)], set()
    similarity = iter(s["similarity"])
    is_left_out = len(s["similarity"]) < len(s["sample_texts"])
    of_samples = zip(s["sample_texts"], s["sample_token_logprobs"], s["exact_match"], strict=True)
    for text, logprobs, is_answer in of_samples:
        if is_left_out and is_answer and logprobs == s["answer_token_logprobs"]:
            is_left_out = False
            continue
        similar = next(similarity)
        if not is_answer and (text, *logprobs) not in rows:
            pairs.append((math.exp(sum(logprobs)), 1 - similar))
        rows.add((text, *logprobs))
    return pairs


def rb_inconsistency(s):
    total = sum(p for p, _ in found(s))
    seen = sum(p * unlike for p, unlike in found(s))
    return seen / total if total > 1 else seen + (1 - total) * inconsistency(s)


def root_sp(s):
    return sp(s) / math.sqrt(len(s["answer_token_logprobs"]))


def of_samples(s, number):
    return -mean([number(logprobs) for logprobs in s["sample_token_logprobs"]])


def symmetric(s):
    e = s["entailment"]
    every = range(len(e))
    return [[1.0 if i == j else (e[i][j] + e[j][i]) / 2 for j in every] for i in every]


def degmat(s):
    return 1 - mean([one for row in symmetric(s) for one in row])


def ce_degmat(s):
    return 1 - mean([one for row in s["similarity_matrix"] for one in row])


def eigv(s):
    weights = np.array(symmetric(s))
    degrees = np.diag(weights.sum(axis=1) ** -0.5)
    laplacian = np.eye(len(weights)) - degrees @ weights @ degrees
    return sum(max(0.0, 1 - one) for one in np.linalg.eigvalsh(laplacian))


def num_sem_sets(s):
    agrees = [[e > c for e, c in zip(*rows, strict=True)] for rows in by_row(s)]
    unseen, count = set(range(len(agrees))), 0
    while unseen:
        pending, count = [unseen.pop()], count + 1
        while pending:
            i = pending.pop()
            near = {j for j in unseen if agrees[i][j] and agrees[j][i]}
            unseen -= near
            pending += near
    return float(count)


def by_row(s):
    return zip(s["entailment"], s["contradiction"], strict=True)


def semantic_entropy(s):
    entails = []
    for says, denies in by_row(s):
        pairs = zip(says, denies, strict=True)
        entails.append([e >= c and e >= 1 - e - c for e, c in pairs])
    classes = []
    for i in range(len(entails)):
        for members in classes:
            if entails[members[0]][i] and entails[i][members[0]]:
                members.append(i)
                break
        else:
            classes.append([i])
    entropy, num_samples = 0.0, len(entails)
    for members in classes:
        rows = {(s["sample_texts"][i], *s["sample_token_logprobs"][i]) for i in members}
        entropy -= len(members) / num_samples * log_sum([sum(row[1:]) for row in rows])
    return entropy


def log_sum(logarithms):
    greatest = max(logarithms)
    return greatest + math.log(sum(math.exp(one - greatest) for one in logarithms))


def semantic_density(s):
    logarithms, close, rows = [mean(s["answer_token_logprobs"])], [1.0], set()
    for i, text in enumerate(s["sample_texts"]):
        row = (text, *s["sample_token_logprobs"][i])
        if not s["exact_match"][i] and row not in rows:
            logarithms.append(mean(s["sample_token_logprobs"][i]))
            close.append((1 + s["answer_entailment"][i] - s["answer_contradiction"][i]) / 2)
        rows.add(row)
    weights = [math.exp(one - max(logarithms)) for one in logarithms]
    return -sum(w * c for w, c in zip(weights, close, strict=True)) / sum(weights)


def relevant(logprobs, relevance):
    if sum(relevance) <= 0:
        relevance = [1.0] * len(relevance)
    pairs = zip(logprobs, relevance, strict=True)
    return -sum(one * r / sum(relevance) for one, r in pairs)


def token_sar(s):
    return relevant(s["answer_token_logprobs"], s["token_relevance"])


def shared(logprobs, matrix):
    told = []
    for i, row in enumerate(matrix):
        terms = [logprobs[i]]
        for j, similar in enumerate(row):
            if i != j and similar > 0:
                terms.append(math.log(similar / 0.001) + logprobs[j])
        told.append(log_sum(terms))
    return -mean(told)


def sentence_sar(s):
    return shared([sum(one) for one in s["sample_token_logprobs"]], s["similarity_matrix"])


def sar(s):
    pairs = zip(s["sample_token_logprobs"], s["sample_token_relevance"], strict=True)
    return shared([-relevant(*pair) for pair in pairs], s["similarity_matrix"])


def bsdetector(s):
    pairs = zip(s["answer_contradiction"], s["exact_match"], strict=True)
    observed = mean([0.8 * (1 - c) + 0.2 * same for c, same in pairs])
    return 1 - (0.7 * observed + 0.3 * math.exp(s["p_true_logprob"]))


def times(base, other):
    def product(s):
        return None if other(s) is None else base(s) * other(s)

    return product


PLAIN = {
    "sp": sp,
    "ppl": ppl,
    "mte": mte,
    "mcse": lambda s: of_samples(s, sum),
    "mcnse": lambda s: of_samples(s, mean),
    "inconsistency": inconsistency,
    "inconsistency_light": light,
    "prob_cocoa_sp": lambda s: (1 - math.exp(-sp(s))) * inconsistency(s),
    "prob_cocoa_ppl": lambda s: (1 - math.exp(-ppl(s))) * inconsistency(s),
    "rb_inconsistency": rb_inconsistency,
    "root_sp": root_sp,
    "cocoa_root_sp": times(root_sp, inconsistency),
    "rb_cocoa_root_sp": times(root_sp, rb_inconsistency),
    "degmat": degmat,
    "ce_degmat": ce_degmat,
    "eigv": eigv,
    "num_sem_sets": num_sem_sets,
    "semantic_entropy": semantic_entropy,
    "semantic_density": semantic_density,
    "token_sar": token_sar,
    "sentence_sar": sentence_sar,
    "sar": sar,
    "p_true": lambda s: -s["p_true_logprob"],
    "bsdetector": bsdetector,
    "remaining": remaining,
    "ungrounded": lambda s: 1 - s["grounded"],
}
for base in (sp, ppl, mte):
    PLAIN[f"cocoa_{base.__name__}"] = times(base, inconsistency)
    PLAIN[f"cocoa_{base.__name__}_light"] = times(base, light)
    PLAIN[f"rb_cocoa_{base.__name__}"] = times(base, rb_inconsistency)
    PLAIN[f"full_sample_cocoa_{base.__name__}"] = times(base, full_sample)
    PLAIN[f"additive_cocoa_{base.__name__}"] = lambda s, base=base: base(s) + inconsistency(s)


def in_lines(golden):
    """A file of golden cases, one a line: what changes in a case shows as that line."""
    sections = []
    for name, value in golden.items():
        text = json.dumps(value)
        if isinstance(value, list):
            text = "[\n" + ",\n".join(map(json.dumps, value)) + "\n]"
        sections.append(f"{json.dumps(name)}: {text}")
    return "{\n" + ",\n".join(sections) + "\n}\n"


def golden_file(name):
    """A file of golden cases, whose scores have the names of today in place of the paper's."""

    old = {"consistency", "consistency_light", "rb_consistency"}

    def renamed(fields):
        for name in old & fields.keys():
            fields[name.replace("consistency", "inconsistency")] = fields.pop(name)
        return fields

    return json.loads((FOLDER / name).read_text(), object_hook=renamed)


def main():
    path = FOLDER / "estimators.json"
    golden = json.loads(path.read_text())
    for case in golden["cases"]:
        for name in sys.argv[1:]:
            if ESTIMATORS[name].needs <= case["statistics"].keys():
                old = name.replace("inconsistency", "consistency")
                case["expected"][old] = PLAIN[name](case["statistics"])
    path.write_text(in_lines(golden))


if __name__ == "__main__":
    main()
