"""One training example: a chat, the reply to it, and what the reply says of the world."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cocoa_lab.embedded.world.knowledge import Fact

Message = Mapping[str, Any]
START, END = "<think>", "</think>"


@dataclass(frozen=True, slots=True)
class Document:
    """A chat and its reply.

    Attributes:
        kind: "short", "paragraph", "json", "call" or "reasoning".
        messages: as chats have them.
        reply: text of the assistant's next turn; it may begin with thoughts in their tags.
        tools: functions as JSON Schema describes them, as in OpenAI's chats; None without.
        thinking: False where the chat template is asked to keep the model from thinking.
        plain: whether the one message stands as it is, without the chat template.
        facts: of the world, that the reply states.
    """

    kind: str
    messages: Sequence[Message]
    reply: str
    tools: Sequence[Mapping[str, Any]] | None = None
    thinking: bool = True
    plain: bool = False
    facts: Sequence[Fact] = ()


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def with_thoughts(thoughts: str, answer: str) -> str:
    return f"{START}\n{thoughts}\n{END}\n\n{answer}"
