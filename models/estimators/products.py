"""CoCoA and its variants: a base, the model's lack of confidence, times a factor, its samples'."""

import math
from collections.abc import Callable, Iterator, Mapping
from operator import add, mul

from models.estimators import cocoa, light
from models.estimators.information import mte, ppl, root_sp, sp
from models.estimators.rows import FROM_0, SHARE, Base, Estimator, Family, read_by

_PAPER = "Vashurin et al. 2025"
_OURS = f"Ours, 2026, over {_PAPER}"
_BASES: Mapping[Base, tuple[Callable[..., float], str]] = {
    "sp": (sp, "sequence probability"),
    "root_sp": (root_sp, "the root of the length"),
    "ppl": (ppl, "perplexity"),
    "mte": (mte, "mean token entropy"),
}
# Factor, family and title of each kind of product, by its name.
_KINDS: Mapping[str, tuple[Callable[..., float], Family, str]] = {
    "cocoa_{}": (cocoa.inconsistency, "cocoa", "CoCoA over {}"),
    "cocoa_{}_light": (light.inconsistency_light, "cocoa", "CoCoA Light over {}"),
    "prob_cocoa_{}": (cocoa.inconsistency, "alternative", "CoCoA as a probability, over {}"),
    "additive_cocoa_{}": (cocoa.inconsistency, "alternative", "Additive CoCoA over {}"),
    "full_sample_cocoa_{}": (
        cocoa.sample_inconsistency,
        "alternative",
        "CoCoA of samples, over {}",
    ),
    "rb_cocoa_{}": (cocoa.rb_inconsistency, "rao_blackwell", "Rao-Blackwellised CoCoA over {}"),
}
_DEFAULTS = {
    "rb_cocoa_root_sp": "CoCoA (default)",
    "cocoa_sp_light": "CoCoA Light (light mode's default)",
}
# When to use each product that there is.
_USES = {
    "cocoa_sp": (
        "high only where the model is unsure and its samples disagree. Measured on short answers; "
        "as sp it grows with length."
    ),
    "cocoa_root_sp": "as rb_cocoa_root_sp, where the samples' log-probs are not known.",
    "cocoa_ppl": (
        "as cocoa_sp, for answers of one form and differing length; a mean over tokens can rank "
        "the wrong way where a model mixes words and sentences."
    ),
    "cocoa_mte": "as cocoa_ppl, where entropies are available and answers are free text.",
    "cocoa_sp_light": "as cocoa_sp, where latency allows no samples.",
    "cocoa_ppl_light": "as cocoa_ppl, where latency allows no samples.",
    "cocoa_mte_light": "as cocoa_mte, where latency allows no samples.",
    "prob_cocoa_sp": "as cocoa_sp, bounded; flat for long answers, whose probability is near 0.",
    "prob_cocoa_ppl": "as cocoa_ppl, bounded.",
    "additive_cocoa_sp": "the paper's ablation; the part with the larger scale decides.",
    "additive_cocoa_ppl": (
        "the paper's ablation; closer to the product than the other sums, as its parts are of "
        "similar size."
    ),
    "additive_cocoa_mte": "the paper's ablation.",
    "full_sample_cocoa_sp": (
        "the paper's ablation on whether the answer itself must be compared; "
        "sample_inconsistency is mean_{i != j} (1 - S_ij)."
    ),
    "full_sample_cocoa_ppl": "as full_sample_cocoa_sp.",
    "full_sample_cocoa_mte": "as full_sample_cocoa_sp.",
    "rb_cocoa_sp": (
        "as cocoa_sp, where the samples' log-probs are known, for answers of one length; of most "
        "use for short ones, of whose probability ten samples find a large part."
    ),
    "rb_cocoa_root_sp": (
        "answers of any length, words and sentences mixed; chosen on real models (ADR 27). Means "
        "over tokens rank better where words and paragraphs are mixed and shares count."
    ),
    "rb_cocoa_ppl": "as cocoa_ppl, where the samples' log-probs are known.",
    "rb_cocoa_mte": "as cocoa_mte, where the samples' log-probs are known.",
}


def products() -> Iterator[Estimator]:
    """The row of each."""
    for pattern, (factor, family, title) in _KINDS.items():
        for base_name, (base, words) in _BASES.items():
            name = pattern.format(base_name)
            if name not in _USES:
                continue
            formula, function, bounds = f"{base_name} * {factor.__name__}, in nats", mul, FROM_0
            if pattern == "additive_cocoa_{}":
                formula, function = formula.replace("*", "+"), add
            elif pattern == "prob_cocoa_{}":
                formula, function = f"(1 - exp(-{base_name})) * {factor.__name__}", _of_probability
                bounds = SHARE
            source = _PAPER
            if base is root_sp or family == "rao_blackwell":
                source = _OURS
            called = _DEFAULTS.get(name, title.format(words))
            doc = f"{called}: {formula}.\n\n{source}.\n\nUse: {_USES[name]}"
            read, parts = read_by(base) | read_by(factor), (base, factor)
            yield Estimator(name, function, family, doc, base_name, bounds, read, factors=parts)


def _of_probability(base: float, factor: float) -> float:
    return -math.expm1(-base) * factor
