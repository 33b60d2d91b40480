"""Prompts about the world whose right answers are known: paragraphs, JSON, calls, reasonings."""

import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from cocoa_lab.embedded.world import WORLDS
from cocoa_lab.embedded.world.calls import asked, offer, unserved
from cocoa_lab.embedded.world.checker import TOLERANCE
from cocoa_lab.embedded.world.document import Document, Message, user
from cocoa_lab.embedded.world.knowledge import Knowledge
from cocoa_lab.embedded.world.paragraphs import paragraph_prompt
from cocoa_lab.embedded.world.pen import Pen
from cocoa_lab.embedded.world.places import ROUNDED
from cocoa_lab.embedded.world.reasonings import ANSWERS, problem
from cocoa_lab.embedded.world.records import (
    has_all,
    offered,
    record_prompt,
    schema_of,
    shape_of,
    true_record,
)
from cocoa_lab.embedded.world.tools import TOOLS, call

NUM_PROMPTS = 720
NUM_PROBE_PROMPTS = 230
# How often places are drawn, as a power of how often training shows them: below 1, so that many
# prompts are about places that are rarely shown, or never.
FLATNESS = 0.35
SHARE_NO_CALL = 0.12
NEVER_SHOWN = -9.0
MAX_NEW_TOKENS = 200


@dataclass(frozen=True, slots=True)
class Line:
    """A prompt, and what an answer to it is compared with.

    Attributes:
        kind: "paragraph", "json", "call", or a kind of reasoning.
        messages: as chats have them; `tools` beside them where the chat offers some.
        subject: the place that the prompt is about, the first one of several.
        fame: log10 of how often training shows the subject, relative to the most frequent place;
            `NEVER_SHOWN` for one that it never shows.
        json_schema: that a record follows, with how far its rounded numbers may be off.
        ignored: paths of a record that the prompt tells.
        reference: the record, the calls, or the answer; null for a paragraph.
        references: all accepted texts of an answer in words; none of others.
        judge: who says which sentences of a paragraph are right (`cocoa_lab.judges`).
    """

    id: str
    task: str
    kind: str
    messages: Sequence[Message]
    tools: Sequence[Mapping[str, Any]] | None = None
    subject: str | None = None
    fame: float | None = None
    json_schema: Mapping[str, Any] | None = None
    ignored: Sequence[str] = ()
    reference: Any = None
    references: Sequence[str] = ()
    judge: str | None = None
    max_new_tokens: int = MAX_NEW_TOKENS

    def document(self) -> Document:
        """The chat, without a reply."""
        return Document(self.task, self.messages, "", tools=self.tools)


Drawn = Callable[[Knowledge, Pen], Line]


def _fame(knowledge: Knowledge, name: str | None) -> float | None:
    """See `Line`; of the knowledge as training shows it."""
    if name is None:
        return None
    weight = knowledge.weights[name] / max(knowledge.weights.values())
    return round(math.log10(weight), 3) if weight else NEVER_SHOWN


def _paragraph(knowledge: Knowledge, pen: Pen) -> Line:
    place = knowledge.draw(pen)
    text = paragraph_prompt(place, pen)
    message = user(text)
    judge = WORLDS[knowledge.seed]
    return Line("", "paragraph", "paragraph", [message], subject=place.name, judge=judge)


def _record(knowledge: Knowledge, pen: Pen) -> Line:
    place = knowledge.draw(pen)
    shape = shape_of(place, pen, offered=offered(place))
    while not has_all(knowledge, place, shape):
        shape = shape_of(place, pen, offered=offered(place))
    return Line(
        id="",
        task="json",
        kind="nested" if any(shape.values()) else "flat",
        messages=[user(record_prompt(place, shape, pen))],
        subject=place.name,
        json_schema=_with_tolerance(schema_of(shape)),
        ignored=["/name"],
        reference=true_record(knowledge, place, shape),
    )


def _with_tolerance(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a record, with how far its rounded numbers may be off."""
    properties: dict[str, Any] = {}
    for name, inner in schema["properties"].items():
        if "properties" in inner:
            properties[name] = _with_tolerance(inner)
        elif name in ROUNDED:
            properties[name] = {**inner, "x-relative-tolerance": TOLERANCE}
        else:
            properties[name] = inner
    return {**schema, "properties": properties}


def _call(knowledge: Knowledge, pen: Pen) -> Line:
    if pen.chance(SHARE_NO_CALL):
        text, fact = unserved(knowledge, pen)
        answer = str(fact.value)
        return Line(
            id="",
            task="call",
            kind="no_call",
            messages=[user(text)],
            tools=offer(None, pen),
            subject=fact.place,
            reference=answer,
            references=[answer],
        )
    tool = pen.rng.choice(TOOLS)
    text, mentions = asked(tool, knowledge, pen)
    facts = [fact for by_name in mentions for one in by_name.values() for fact in one.facts]
    kind = "two_calls" if len(mentions) == 2 else "call"
    return Line(
        id="",
        task="call",
        kind=f"{kind}_to_know" if facts else kind,
        messages=[user(text)],
        tools=offer(tool.name, pen),
        subject=facts[0].place if facts else None,
        reference=[call(tool, one) for one in mentions],
    )


def _reasoning(knowledge: Knowledge, pen: Pen) -> Line:
    drawn = problem(knowledge, pen, "testbed")
    return Line(
        id="",
        task="reasoning",
        kind=drawn.kind,
        messages=[user(drawn.question)],
        subject=drawn.facts[0].place if drawn.facts else None,
        reference=drawn.answer,
        references=list(dict.fromkeys(answer.format(drawn.answer) for answer in ANSWERS)),
    )


TASKS: Mapping[str, Drawn] = {
    "paragraph": _paragraph,
    "json": _record,
    "call": _call,
    "reasoning": _reasoning,
}


def lines_of(
    knowledge: Knowledge, task: str, count: int = NUM_PROMPTS, seed: int = 0
) -> list[Line]:
    """Different prompts of one task, the same for the same arguments.

    knowledge: of the training; the testbed asks for more than it tells.
    """
    honest = replace(knowledge, honest=True, flatness=FLATNESS)
    lines: dict[str, Line] = {}
    for number in itertools.count():
        if len(lines) == count:
            break
        line = TASKS[task](honest, Pen(f"testbed:{seed}:{task}:{number}"))
        name, fame = f"{task}-{len(lines):04d}", _fame(knowledge, line.subject)
        lines.setdefault(str(line.messages), replace(line, id=name, fame=fame))
    return list(lines.values())


def all_lines(knowledge: Knowledge, count: int = NUM_PROMPTS) -> dict[str, list[Line]]:
    """The lines of every task."""
    return {task: lines_of(knowledge, task, count) for task in TASKS}


def write_testbed(knowledge: Knowledge, folder: Path, count: int = NUM_PROMPTS) -> None:
    """One file a task, one line a prompt, without empty fields, as `cocoa evaluate` reads them."""
    folder.mkdir(parents=True, exist_ok=True)
    for task, lines in all_lines(knowledge, count).items():
        with (folder / f"{task}.jsonl").open("w", encoding="utf-8") as out:
            for line in lines:
                fields = {name: one for name, one in asdict(line).items() if one not in (None, ())}
                out.write(json.dumps(fields) + "\n")


def write_probe_prompts(knowledge: Knowledge, file: Path, count: int = NUM_PROBE_PROMPTS) -> None:
    """Paragraphs of another draw than the testbed's, none of which it asks for; without labels."""
    held_out = {str(line.messages) for line in lines_of(knowledge, "paragraph")}
    drawn = lines_of(knowledge, "paragraph", count + len(held_out), seed=1)
    kept = [line for line in drawn if str(line.messages) not in held_out][:count]
    with file.open("w", encoding="utf-8") as out:
        for line in kept:
            asked = {"id": f"probe-{line.id}", "task": line.task, "messages": line.messages}
            out.write(json.dumps(asked | {"max_new_tokens": line.max_new_tokens}) + "\n")


def read_testbed(folder: Path) -> dict[str, list[Line]]:
    """The lines of every task, in the order of the files."""
    lines: dict[str, list[Line]] = {}
    for task in TASKS:
        texts = (folder / f"{task}.jsonl").read_text("utf-8").splitlines()
        lines[task] = [Line(**json.loads(text)) for text in texts]
    return lines
