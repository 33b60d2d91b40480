"""What the paper compares with by words: two similarity functions, and an estimator.

A service where the lab is installed has them, by the entry points of its pyproject.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from itertools import combinations, starmap

from cocoa_lab.overlap import rouge_l_f, spaced, word_stems
from models.estimators import row
from models.estimators.information import at_least, plain
from models.similarity.lexical import LexicalModel


def jaccard(a: AbstractSet[str], b: AbstractSet[str]) -> float:
    """Common share of the words of two texts; 1 for two texts without any.

    >>> jaccard({"it", "is", "paris"}, {"it", "is", "rome"})
    0.5
    """
    if not a and not b:
        return 1.0
    return len(a & b) / len(a | b)


def lexical_similarity(sample_texts: Sequence[str]) -> float:
    """Negated overlap of the samples: -mean_{i<j} ROUGE-L F, lower case, stems with their signs.

    Fomicheva et al. 2020.

    sample_texts: M >= 2.

    Use: a baseline without any further model.
    """
    pairs = list(combinations(map(word_stems, at_least(2, sample_texts)), 2))
    return plain(-sum(starmap(rouge_l_f, pairs)) / len(pairs))


# F1 of the longest common subsequence of word stems (Lin 2004).
ROUGE_L = LexicalModel("rouge_l", word_stems, rouge_l_f)
# Over the lower-cased words between blanks, or characters of scripts without any.
JACCARD = LexicalModel("jaccard", lambda text: frozenset(spaced(text).split()), jaccard)
LEXICAL_SIMILARITY = row(lexical_similarity, "semantic", bounds=(-1.0, 0.0))
