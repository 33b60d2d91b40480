"""Pure: whether a chat template shows every message, by the words that stand in for them."""

import secrets
from collections.abc import Sequence
from dataclasses import replace

from models.errors import ChatTemplateError
from models.records import GenerationRequest

# That chat templates know. An error names no other one: that would be the client's text.
ROLES = ("system", "user", "assistant", "tool")


def stand_ins(request: GenerationRequest) -> tuple[GenerationRequest, list[set[str]]] | None:
    """The request with a drawn word in place of each text and call, and the words by message.

    What a template drops in silence, the words show once it has rendered them.

    Returns:
        None for one message of a user, which every template shows.
    """
    messages = request.messages or ()
    if [message["role"] for message in messages] == ["user"]:
        return None
    words: list[set[str]] = []
    drawn = []
    for message in map(dict, messages):
        words.append(set())
        if message["content"] or "tool_calls" not in message:
            message["content"] = secrets.token_hex(8)
            words[-1].add(message["content"])
        calls = []
        for call in message.get("tool_calls", ()):
            name = f"f{secrets.token_hex(8)}"
            calls.append({**call, "function": {**call["function"], "name": name}})
            words[-1].add(name)
        if calls:
            message["tool_calls"] = calls
        drawn.append(message)
    return replace(request, messages=tuple(drawn)), words


def check_none_left_out(
    request: GenerationRequest, words: Sequence[set[str]], rendered: str
) -> None:
    """Refuse messages of which the template drops one; `words` are those of `stand_ins`.

    Raises:
        ChatTemplateError: it does; names the first one.
    """
    for number, (message, expected) in enumerate(zip(request.messages or (), words, strict=True)):
        if not all(word in rendered for word in expected):
            complaint = "the model's chat template leaves this message out: send the others "
            complaint += f"without it{about_role(message['role'])}"
            raise ChatTemplateError(complaint, field=f"messages.{number}")


def about_role(role: str) -> str:
    """The role of a message, which is named only where it is no text of the client's own."""
    if role in ROLES:
        return f" (its role is {role})"
    return f" (its role is none of {', '.join(ROLES)})"
