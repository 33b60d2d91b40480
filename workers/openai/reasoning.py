"""Reasonings that an existing server tells: in its text, apart from it in a message, or not at all.

Pure.
"""

from collections.abc import Sequence
from dataclasses import replace

from models import records
from models.engines.texts import behind, tags_in
from models.units.reasoning import Reasoning, part
from workers.openai.found import TagIds
from workers.openai.replies import Choice


def behind_reasoning(
    sequence: records.Sequence,
    choice: Choice,
    texts: tuple[str, ...] | None,
    *,
    opened: bool,
    tag_ids: Sequence[TagIds] = (),
) -> records.Sequence:
    """The answer of a choice, with the reasoning before it apart.

    Args:
        sequence: record of the choice, with the statistics of all its tokens.
        choice: as the server tells it; one that parts the two itself tells log-probs of both.
        texts: (T,) of its tokens; None where they are not known.
        opened: whether the prompt ended in the tag that begins a reasoning.
        tag_ids: by which the tokens of a reasoning are known without their texts.
    """
    choice = _with_thoughts(choice, opened=opened)
    found = _parted(choice, opened=opened)
    num_tokens, first = choice.num_tokens, choice.num_tokens
    is_finished = bool(choice.text) or choice.finish_reason == "stop"
    thoughts, answer = choice.reasoning, choice.text
    if thoughts is not None:
        texts, opened = choice.tokens, True
    elif found.text is not None:
        thoughts, answer, is_finished = found.text, found.answer, found.state == "finished"
    elif choice.num_hidden:  # log-probs are the answer's own where their tokens are its text
        first = 0 if texts else None
    else:
        return replace(sequence, token_texts=texts)
    if is_finished and thoughts is not None:
        first = first_of_answer(choice.token_ids or (), texts or (), tag_ids, opened=opened)
    if first is not None and num_tokens is not None:
        is_finished = first < num_tokens
    num_thoughts = first or choice.num_hidden
    reasoning = records.Reasoning((thoughts or "").strip(), num_thoughts, is_finished)
    if num_tokens is None:
        sequence = replace(sequence, num_tokens=max(0, sequence.num_tokens - choice.num_hidden))
    sequence = behind(replace(sequence, token_texts=texts), reasoning, answer, first)
    return replace(sequence, token_texts=_without_end(sequence))


def needs_texts(choice: Choice, tag_ids: Sequence[TagIds], *, opened: bool) -> bool:
    """Whether only the texts of its tokens tell where the reasoning of a choice ends."""
    is_reasoned = _parted(choice, opened=opened).state == "finished"
    return is_reasoned and first_of_answer(choice.token_ids or (), (), tag_ids) is None


def first_of_answer(
    ids: Sequence[int],
    texts: Sequence[str],
    tag_ids: Sequence[TagIds] = (),
    *,
    opened: bool = False,
) -> int | None:
    """Index of the first token behind a reasoning; None where it has none, or nobody knows it.

    Args:
        ids: of the tokens, as far as they are known.
        texts: of the tokens, likewise.
        tag_ids: as `behind_reasoning` has them.
        opened: likewise.
    """
    for known in tag_ids:
        if (first := known.first_behind(ids)) is not None:
            return first
    found = part(texts, tags_in("".join(texts), opened=opened), opened=opened)
    return found.num_tokens if found.state == "finished" else None


def _parted(choice: Choice, *, opened: bool) -> Reasoning:
    return part([choice.text], tags_in(choice.text, opened=opened), opened=opened)


def _with_thoughts(choice: Choice, *, opened: bool) -> Choice:
    """The choice with the reasoning that only its tokens tell, since the text leaves it out."""
    if choice.reasoning is not None or _parted(choice, opened=opened).text is not None:
        return choice
    tokens = choice.tokens or ()
    tags = tags_in("".join(tokens), opened=True)
    found = part(tokens, tags, opened=True)
    is_begun = part(tokens, tags).text is not None
    if tags.end in choice.text or not (is_begun or found.state == "finished"):
        return choice
    return replace(choice, reasoning=found.text)


def _without_end(sequence: records.Sequence) -> tuple[str, ...] | None:
    """Texts of the answer's tokens, of which the one that ended it adds nothing."""
    texts, text = sequence.token_texts, sequence.text
    if texts and not text.endswith("".join(texts)) and text.endswith("".join(texts[:-1])):
        return (*texts[:-1], "")
    return texts
