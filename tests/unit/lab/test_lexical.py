"""ROUGE-L, Jaccard and lexical similarity, which a service beside the lab has, too."""

import json
import random
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from cocoa_lab.lexical import JACCARD, ROUGE_L, lexical_similarity
from cocoa_lab.overlap import word_stems
from models.estimators import score

WORDS = ["The", "capitals", "of", "running", "countries,", "Paris!", "isn't", "42", "well-known"]
WORDS += ["x_y", "are"]


GOLDEN = json.loads(Path(__file__).with_suffix(".json").with_stem("lexical_similarity").read_text())


def rouge_l(a, b):
    return ROUGE_L.score([(a, b)]).values[0, 0]


def jaccard(a, b):
    return JACCARD.score([(a, b)]).values[0, 0]


@pytest.mark.parametrize("seed", range(30))
def test_rouge_l_equals_the_rouge_score_package_on_ascii(seed):
    rng = random.Random(seed)
    a, b = (" ".join(rng.choices(WORDS, k=rng.randint(1, 25))) for _ in range(2))

    expected = RougeScorer(["rougeL"], use_stemmer=True).score(a, b)["rougeL"].fmeasure
    assert rouge_l(a, b) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("a", "b"), [("p ∧ q", "p \u2228 q"), ("A → B", "A ← B"), ("∀x", "∃x"), ("a ⊂ b", "a ⊃ b")]
)
def test_rouge_l_tells_signs_of_mathematics_apart(a, b):
    assert rouge_l(a, b) < 1.0 == rouge_l(a, a)


def test_rouge_l_knows_every_script():
    assert rouge_l("Пари́ж красив", "пари́ж красив") == 1.0
    assert rouge_l("東京", "京都") == 0.5, "by characters"
    assert rouge_l("大阪", "京都") == 0.0
    assert rouge_l("我住在北京。", "我住在北京市。") == pytest.approx(10 / 11)
    assert rouge_l("été e\u0301te\u0301", "e\u0301te\u0301 été") == 1.0
    for one, other in (("दिल", "दाल"), ("தி", "து"), ("নি", "ন"), ("কৃ", "ক")):
        assert rouge_l(one, other) == 0.0
        assert rouge_l(one, one) == 1.0


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("-5", "5"),
        ("C", "C++"),
        ("10%", "10"),
        ("$5", "€5"),
        ("#1", "1"),
        ("C#", "C"),
        ("O+", "O-"),
        ("It is .5", "It is 5"),
        ("2 + 2", "2 \u00d7 2"),
        ("5 > 3", "5 < 3"),
        ("10/5", "10-5"),
        ("-$5", "$5"),
        ("18+", "18"),
        ("√2", "2"),
        ("¬p", "p"),
        ("~5", "5"),
        ("-x", "x"),
        ("B♭", "B"),
        ("→", "←"),
        ("👍", "👎"),
        ("I like it 👍", "I like it 👎"),
        ("🦊 is red", "🐻 is red"),
        ("✓ Paris", "✗ Paris"),
    ],
)
def test_texts_that_differ_only_in_signs_are_not_equal(a, b):
    assert rouge_l(a, b) < 1
    assert lexical_similarity([a, b]) > -1


@given(
    st.sampled_from(["", "Das Ergebnis ist ", "It is about "]),
    st.integers(0, 10**6),
    st.sampled_from(["{}", "-{}", "{}%", "${}", "€{}", "#{}", "<{}", "{}+", "{}°"]),
    st.sampled_from(["{}", "-{}", "{}%", "${}", "€{}", "#{}", "<{}", "{}+", "{}°"]),
)
def test_a_number_under_another_sign_is_another_word(before, number, sign, other):
    a, b = (before + form.format(number) for form in (sign, other))

    assert (rouge_l(a, b) == 1) == (sign == other)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("**Paris**", "Paris"),
        ("# Paris", "Paris"),
        ("well-known", "well known"),
        ("pre- and post-war", "pre and post war"),
        ("Paris - the capital", "Paris: the capital"),
        ("10 %", "10%"),
        ("\u22125", "-5"),
        ("...5", "5"),
    ],
)
def test_marks_that_say_nothing_do_not_count(a, b):
    assert rouge_l(a, b) == 1


@pytest.mark.parametrize("sign", ["-", "+", "#", "$.", "a-", "1-"])
def test_a_long_run_of_signs_is_read_once(sign):
    assert len(word_stems(sign * 100_000)) <= 200_000


def test_jaccard_is_the_common_share_of_the_lower_cased_words():
    assert jaccard("It is Paris", "it is Rome") == 0.5


@pytest.mark.parametrize("function", [rouge_l, jaccard])
def test_empty_texts_are_like_each_other_and_unlike_all_else(function):
    assert (function("", ""), function("", "Rome"), function("Rome", "")) == (1.0, 0.0, 0.0)


def test_stems_are_found_without_the_rest_of_nltk():
    code = (
        "import sys; from cocoa_lab.overlap import word_stems\n"
        "print(word_stems('Capitals'))\n"
        "print([name for name in ('nltk', 'nltk.stem', 'sklearn') if name in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60
    )
    assert (result.stdout, result.returncode) == ("['capit']\n[]\n", 0), result.stderr


def by_definition(texts):
    """Lexical similarity by the table of the longest common subsequence."""
    stems = [word_stems(text) for text in texts]
    if len(stems) < 2:
        return None
    overlaps = []
    for a, b in combinations(stems, 2):
        lengths = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
        for i, one in enumerate(a):
            for j, other in enumerate(b):
                longest = max(lengths[i][j + 1], lengths[i + 1][j])
                lengths[i + 1][j + 1] = lengths[i][j] + 1 if one == other else longest
        overlaps.append(2 * lengths[-1][-1] / (len(a) + len(b)))
    return -sum(overlaps) / len(overlaps)


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: case["name"])
def test_lexical_similarity_reproduces_its_golden_values(case):
    texts, expected = case["sample_texts"], case["expected"]
    scores, reasons = score(["lexical_similarity"], {"sample_texts": texts})

    for found in (scores["lexical_similarity"], by_definition(texts)):
        assert found == (None if expected is None else pytest.approx(expected, abs=1e-6))
    assert (reasons == {}) == (expected is not None)
