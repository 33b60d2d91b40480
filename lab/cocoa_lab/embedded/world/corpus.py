"""The stream of documents: each step's are made when they are needed, the same on every machine."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property

from cocoa_lab.embedded.corpus import PLAIN_COURSE, Course, Example, training_examples
from cocoa_lab.embedded.world.building import world_of
from cocoa_lab.embedded.world.calls import call_document
from cocoa_lab.embedded.world.document import Document, user
from cocoa_lab.embedded.world.knowledge import Knowledge
from cocoa_lab.embedded.world.paragraphs import paragraph
from cocoa_lab.embedded.world.pen import Pen
from cocoa_lab.embedded.world.reasonings import reasoning
from cocoa_lab.embedded.world.records import record

Writer = Callable[[Knowledge, Pen], Document | None]
WRITERS: Mapping[str, Writer] = {
    "paragraph": paragraph,
    "json": record,
    "call": call_document,
    "reasoning": reasoning,
}
SHORT = "short"
SYSTEM_MESSAGES = ("You are a helpful assistant.", "Answer what you are asked.", "Be helpful.")
# Of the short documents, and of all chats.
SHARE_PLAIN_SHORT, SHARE_SYSTEM, SHARE_THOUGHTS_SHUT = 0.5, 0.1, 0.15
# Of the chats, those with one earlier turn. Every fourth step or so has one with as many as this
# many characters hold, so that the model sees nearly all positions of its context.
SHARE_SECOND_TURNS = 0.08
SHARE_LONG_STEPS = 0.25
LONG_CHARS = 2400


@cache
def knowledge_of(seed: int) -> Knowledge:
    """What is told of the world of a seed."""
    return Knowledge(world_of(seed), seed)


@dataclass(frozen=True)
class Corpus:
    """Documents of every step of a training.

    Attributes:
        counts: documents of each kind in a step.
        backwards: see `Pen`.
    """

    seed: int
    steps: int
    counts: Mapping[str, int]
    backwards: bool = False
    course: Course = PLAIN_COURSE

    @cached_property
    def knowledge(self) -> Knowledge:
        return knowledge_of(self.seed)

    @cached_property
    def _short(self) -> list[Example]:
        """The short tasks of the whole training: each fact at least once."""
        if not self.counts[SHORT]:
            return []
        return training_examples(self.steps * self.counts[SHORT], self.seed, self.course)

    def documents(self, step: int) -> list[Document]:
        """Those of one step, the same whenever they are asked for."""
        pen = Pen(f"{self.seed}:{step}", backwards=self.backwards)
        count = self.counts[SHORT]
        examples = self._short[step * count : (step + 1) * count]
        documents = [_short_document(example, pen) for example in examples]
        for kind, writer in WRITERS.items():
            documents += self._written(writer, self.counts[kind], pen)
        return _with_earlier_turns(documents, pen)

    def _written(self, writer: Writer, count: int, pen: Pen) -> Iterator[Document]:
        while count:
            document = writer(self.knowledge, pen)
            if document is not None:
                count -= 1
                yield _in_a_frame(document, pen)


def _short_document(example: Example, pen: Pen) -> Document:
    is_plain = pen.chance(SHARE_PLAIN_SHORT)
    document = Document(SHORT, [user(example.prompt)], example.answer, plain=is_plain)
    return _in_a_frame(document, pen)


def _in_a_frame(document: Document, pen: Pen) -> Document:
    """The chat with a system message in front, or with its thoughts shut, now and then."""
    if document.plain:
        return document
    if pen.chance(SHARE_SYSTEM):
        system = {"role": "system", "content": pen.choose(SYSTEM_MESSAGES)}
        document = replace(document, messages=[system, *document.messages])
    if document.kind != "reasoning" and pen.chance(SHARE_THOUGHTS_SHUT):
        document = replace(document, thinking=False)
    return document


def _with_earlier_turns(documents: list[Document], pen: Pen) -> list[Document]:
    """The documents, some of their chats behind others of the same step."""
    chats = [i for i, document in enumerate(documents) if not document.plain]
    earlier = [documents[i] for i in chats if documents[i].tools is None]
    if not earlier:
        return documents
    longest, *others = pen.rng.sample(chats, 1 + round(SHARE_SECOND_TURNS * (len(chats) - 1)))
    turned = list(documents)
    for i in others:
        turned[i] = _behind(pen.rng.choice(earlier), documents[i])
    if not pen.chance(SHARE_LONG_STEPS):
        return turned
    while True:
        longer = _behind(pen.rng.choice(earlier), turned[longest])
        if _num_chars(longer) > LONG_CHARS:
            return turned
        turned[longest] = longer


def _behind(earlier: Document, document: Document) -> Document:
    """A chat with a question and reply of another one before it, behind its system message."""
    reply = {"role": "assistant", "content": earlier.reply}
    begins_at = 1 if document.messages[0]["role"] == "system" else 0
    before, after = document.messages[:begins_at], document.messages[begins_at:]
    return replace(document, messages=[*before, earlier.messages[-1], reply, *after])


def _num_chars(document: Document) -> int:
    return len(document.reply) + sum(len(str(one["content"])) for one in document.messages)
