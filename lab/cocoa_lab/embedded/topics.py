"""A question and its answer, independent of wording, and all the wordings of both."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Literal

Split = Literal["train", "testbed", "probe"]

# Percent of the keys that decide the split; the rest is trained on.
TESTBED_PERCENT = 10
PROBE_PERCENT = 15

_WITH_ARTICLE = frozenset(
    {"Bahamas", "Democratic", "Gambia", "Maldives", "Netherlands", "Philippines", "United"}
)


@dataclass(frozen=True, slots=True)
class Topic:
    """One question and its answer, independent of wording.

    `prompt_templates` and `answer_templates` are format strings over {subject}, {answer},
    {language}, and {the_subject}, {the_answer}, which put an article before the names of countries
    that need one. `weight` is the relative training frequency within the task, `fame` a number that
    grows with it (log10 of the population for facts). A topic with a `key` is held out whole
    (operands, words); where it is None, single prompts are held out, so that a trained topic is
    tested in an unseen wording. `never_held_out` is for answers that cannot be inferred, such as
    the words for the first twenty numbers.
    """

    task: str
    kind: str
    subject: str
    answer: str
    weight: float
    fame: float
    prompt_templates: tuple[str, ...]
    answer_templates: tuple[str, ...]
    language: str = ""
    key: str | None = None
    never_held_out: bool = False


def definite(name: str) -> str:
    """A name as it stands inside a sentence: "the Netherlands", "France"."""
    needs_article = name.split()[0] in _WITH_ARTICLE or name.endswith((" Islands", " Republic"))
    return f"the {name}" if needs_article else name


def prompts(topic: Topic) -> list[str]:
    fields = {
        "subject": topic.subject,
        "the_subject": definite(topic.subject),
        "language": topic.language,
    }
    return [template.format(**fields) for template in topic.prompt_templates]


def wordings(topic: Topic, answer: str | None = None) -> list[str]:
    """Texts that all mean `answer` (default: the true one); the first is the bare answer."""
    answer = topic.answer if answer is None else answer
    fields = {
        "subject": topic.subject,
        "the_subject": definite(topic.subject),
        "answer": answer,
        "the_answer": definite(answer),
        "language": topic.language,
    }
    return [template.format(**fields) for template in topic.answer_templates]


def weighted_to(topics: Sequence[Topic], shares: Mapping[str, float]) -> list[Topic]:
    """The topics with weights that sum to 1 and give each kind its share of the task."""
    totals = dict.fromkeys(shares, 0.0)
    for topic in topics:
        totals[topic.kind] += topic.weight
    weighted: list[Topic] = []
    for topic in topics:
        weight = topic.weight * shares[topic.kind] / totals[topic.kind]
        weighted.append(replace(topic, weight=weight))
    return weighted


def split(key: str) -> Split:
    """The part that a key belongs to, by a hash that is the same on every machine."""
    bucket = int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "big") % 100
    if bucket < TESTBED_PERCENT:
        return "testbed"
    return "probe" if bucket < TESTBED_PERCENT + PROBE_PERCENT else "train"


def prompts_in(topic: Topic, part: Split) -> Iterator[str]:
    """The prompts of a topic that belong to one part of the split."""
    for prompt in prompts(topic):
        if ("train" if topic.never_held_out else split(topic.key or prompt)) == part:
            yield prompt
