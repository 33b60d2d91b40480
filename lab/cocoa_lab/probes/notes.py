"""What a reader has to know before trusting the figures of a probe. Pure."""

from collections import Counter
from collections.abc import Mapping
from itertools import filterfalse, starmap
from pathlib import PurePath

from cocoa_lab.notes import few_prompts, ranks_nothing
from cocoa_lab.probes.collection import Collection
from models.probes.card import Card


def notes(
    card: Card, measured: Collection, num_own: int | None, left_out: Mapping[str, str]
) -> list[str]:
    """One sentence or two for each thing.

    Args:
        card: of the probe.
        measured: what it was measured on.
        num_own: answers to prompts of its own collection, where that is at hand.
        left_out: tasks that rank nothing, with the reasons.
    """
    num_prompts = Counter(answer.task for answer in measured.answers)
    found = list(starmap(ranks_nothing, left_out.items()))
    if new := list(filterfalse(card.tasks.__contains__, num_prompts)):
        found.append(
            f"The probe was trained on no prompt of {', '.join(new)}: its figures there are those "
            "of a task that it never saw, and stand once."
        )
    if num_own:
        found.append(
            f"{num_own} of {len(measured.answers)} answers are to prompts that the probe was made "
            "with, which flatters it."
        )
    elif num_own is None and PurePath(measured.header.prompts).name == card.training_set:
        found.append(f"The probe was made with prompts of this name, {card.training_set}.")
    return found + few_prompts(num_prompts)


def num_own_prompts(measured: Collection, training: Collection) -> int:
    """Answers to prompts that are in the probe's own collection.

    Prompts are compared by their text where both collections tell it, and else by id.
    """
    digest_of_id = {answer.id: answer.prompt_digest for answer in training.answers}
    digests = set(digest_of_id.values()) - {None}
    num_own = 0
    for answer in measured.answers:
        if answer.prompt_digest in digests:
            num_own += 1
        elif answer.id in digest_of_id:  # by id where either collection tells no text
            num_own += None in (answer.prompt_digest, digest_of_id[answer.id])
    return num_own
