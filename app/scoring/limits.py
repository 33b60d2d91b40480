"""Pure: how much text an ask may bring, and how many pairs it may take.

The deadline bounds the time of an ask; these bound its memory, and what it holds in a queue.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge

from app.scoring.ask import Ask
from models.errors import InvalidRequest
from models.records import Pair
from models.similarity.align import num_cells, sentences
from workers.protocol import ComparerInfo


@dataclass(frozen=True, slots=True)
class AskLimits:
    """Bounds of an ask.

    Attributes:
        max_text_characters: of a given answer, and of each given sample.
        max_text_sentences: of the same texts, where they are compared by sentences.
        max_pairs: ordered pairs that one pair model reads for an ask: distinct ones of texts, or,
            where texts are compared by sentences, all their cells.
        max_relevance_characters: of an ask's texts without each of their tokens, which token
            relevance compares: the sum over sequences of their tokens times their characters.
    """

    max_text_characters: Annotated[int, Ge(1)] = 32_768
    max_text_sentences: Annotated[int, Ge(1)] = 256
    max_pairs: Annotated[int, Ge(1)] = 65_536
    max_relevance_characters: Annotated[int, Ge(1)] = 100_000_000


def check_texts(ask: Ask, limits: AskLimits, *, by_sentence: bool) -> None:
    """Refuse given texts that are too long.

    Args:
        ask: with an answer and samples, or without.
        limits: of one text.
        by_sentence: whether its texts are compared by sentences.

    Raises:
        InvalidRequest: names the first text that is too long, and its limit.
    """
    texts = {}
    if ask.answer is not None:
        texts["answer"] = ask.answer.text
    for number, sample in enumerate(ask.samples or ()):
        texts[f"samples.{number}.text"] = sample.text
    for field, text in texts.items():
        if len(text) > limits.max_text_characters:
            message = f"must have at most {limits.max_text_characters} characters"
            raise InvalidRequest(message, field=field)
        if by_sentence and len(sentences(text)) > limits.max_text_sentences:
            message = f"must have at most {limits.max_text_sentences} sentences for this similarity"
            raise InvalidRequest(message, field=field)


def check_pairs(
    pairs: Sequence[Pair], comparer: ComparerInfo, limits: AskLimits, *, field: str
) -> None:
    """Refuse more pairs than one ask may have read.

    Args:
        pairs: distinct ones.
        comparer: that is to score them.
        limits: of their number.
        field: of the ask, that makes them many.

    Raises:
        InvalidRequest: names the field and both numbers.
    """
    num_pairs = len(pairs)
    if comparer.is_by_sentence:
        num_pairs = num_cells(pairs)
    if num_pairs > limits.max_pairs:
        message = f"takes {num_pairs} pairs of texts to compare, and may take {limits.max_pairs}"
        raise InvalidRequest(message, field=field)


def check_relevance(
    contexts: Sequence[str], token_texts: Sequence[Sequence[str]], limits: AskLimits
) -> None:
    """Refuse sequences whose texts without each of their tokens take too much memory.

    Args:
        contexts: what each sequence is read after.
        token_texts: of each sequence.
        limits: of all together.

    Raises:
        InvalidRequest: names both numbers.
    """
    num_characters = 0
    for context, texts in zip(contexts, token_texts, strict=True):
        num_characters += len(texts) * (len(context) + sum(map(len, texts)))
    if num_characters > limits.max_relevance_characters:
        most = limits.max_relevance_characters
        message = f"takes {num_characters} characters to compare by token, and may take {most}"
        raise InvalidRequest(message, field="estimators")
