"""Estimators of an answer over documents: whether they say it, and whether the model read it there.

None of these says whether the documents are right.
"""

from models.estimators.information import nonempty, plain
from models.records import Array

# Nats a token. So far both readings count as surprised of what is certain, so that the quotient of
# two answers that surprise neither is 1, and not noise.
_LEAST_NATS = 0.05


def remaining(answer_token_logprobs: Array, closed_book_token_logprobs: Array) -> float:
    """Remaining surprise: min(1, (L + 0.05 T) / (L_closed + 0.05 T)), L = -sum_t l_t, in nats.

    Ours, 2026.

    1 means that the documents took no surprise away: the model remembers the answer, or makes it
    up. Near 0 means that it read the answer in them.

    answer_token_logprobs: (T,), with the documents.
    closed_book_token_logprobs: (T,), of the same tokens without them.

    Use: whether a model that was shown documents has used them.
    """
    least = _LEAST_NATS * len(nonempty(answer_token_logprobs))
    surprise = least - answer_token_logprobs.sum()
    return plain(min(1.0, surprise / (least - closed_book_token_logprobs.sum())))


def ungrounded(grounded: float) -> float:
    """Ungrounded: 1 - grounded, the share that no document says. Ours, 2026.

    grounded: in [0, 1], the share of a sentence that documents say; of an answer the mean of its
        sentences.

    Use: answers over documents, sentence by sentence; it does not ask what is true.
    """
    return plain(1.0 - grounded)
