"""Whether sentences about a subject say what is known of it. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from cocoa_lab.containing import says, words


@dataclass(frozen=True, slots=True)
class Fact:
    """What is known of a subject, and how a sentence is recognised that speaks of it.

    Attributes:
        words: in lower case; a sentence speaks of the fact that has any of them, or its plural.
        accepted: a sentence is right that says one of these.
    """

    words: frozenset[str]
    accepted: tuple[str, ...]

    @classmethod
    def of(cls, words: Sequence[str], accepted: Sequence[str]) -> Self:
        """A fact of a line of a file."""
        return cls(frozenset(words), tuple(accepted))


@dataclass(frozen=True, slots=True)
class Known:
    """Facts of a subject.

    Attributes:
        names: of it, the one by which it is asked for first. They say nothing of it: the "America"
            of a country's name is no continent.
    """

    names: tuple[str, ...]
    facts: tuple[Fact, ...]

    @classmethod
    def of(cls, line: Mapping[str, Any]) -> Self:
        """That of a line of a file, with `names` and `facts` of words and accepted values.

        Raises:
            ValueError: names the field.
        """
        try:
            return cls(tuple(line["names"]), tuple(Fact.of(*one) for one in line["facts"]))
        except (KeyError, TypeError):
            reason = "fields 'names' and 'facts' (of words and accepted values) are needed"
            raise ValueError(reason) from None

    def verdict(self, sentence: str) -> bool | None:
        """Whether all facts that a sentence speaks of are right; None where it speaks of none."""
        text = sentence
        for name in sorted(self.names, key=len, reverse=True):
            text = text.replace(name, " ")
        said = {word.removesuffix("s") for word in words(text)} | set(words(text))
        found = [fact for fact in self.facts if not said.isdisjoint(fact.words)]
        if not found:
            return None
        return all(any(says(one, text) for one in fact.accepted) for fact in found)
