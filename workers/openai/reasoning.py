"""Reasonings that an existing server tells: in its text, or apart from it in a message."""

from collections.abc import Sequence

from models import records
from models.engines.texts import behind, parted, tags_in
from models.units.reasoning import part
from workers.openai.replies import Choice


def behind_reasoning(
    sequence: records.Sequence,
    choice: Choice,
    texts: Sequence[str] | None,
    *,
    opened: bool,
) -> records.Sequence:
    """The answer of a choice, with the reasoning before it apart.

    Args:
        sequence: record of the choice, with the statistics of all its tokens.
        choice: as the server tells it; one that parts the two itself tells log-probs of both.
        texts: (T,) of its tokens; None where they are not known.
        opened: whether the prompt ended in the tag that begins a reasoning.
    """
    if choice.reasoning is None:
        return parted(sequence, texts, opened=opened)
    first = None
    tokens = choice.tokens or ()
    tags = tags_in("".join(tokens), opened=True)
    found = part(tokens, tags, opened=True)
    if found.state == "finished":
        first = found.num_tokens
    is_finished = bool(choice.text) or choice.finish_reason == "stop"
    reasoning = records.Reasoning(choice.reasoning.strip(), first or 0, is_finished)
    return behind(sequence, reasoning, choice.text, first)
