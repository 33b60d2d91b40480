"""Pure: whether a chat template shows every message, by the words that stand in for them."""

import secrets
from dataclasses import replace

from models.errors import ChatTemplateError
from models.records import GenerationRequest

# That chat templates know. An error names no other one: that would be the client's text.
ROLES = ("system", "user", "assistant", "tool")


class StandIns:
    """Drawn words in place of the texts and calls of a request's messages.

    What a template drops in silence, the words show once it has rendered them.
    """

    def __init__(self, request: GenerationRequest) -> None:
        self.request = request  # with the words
        # By message; none for one message of a user, which every template shows.
        self.words: list[set[str]] = []
        messages = request.messages or ()
        if [message["role"] for message in messages] == ["user"]:
            return
        drawn = []
        for message in map(dict, messages):
            words = set()
            if message["content"] or "tool_calls" not in message:
                message["content"] = secrets.token_hex(8)
                words.add(message["content"])
            calls = []
            for call in message.get("tool_calls", ()):
                name = f"f{secrets.token_hex(8)}"
                calls.append({**call, "function": {**call["function"], "name": name}})
                words.add(name)
            if calls:
                message["tool_calls"] = calls
            drawn.append(message)
            self.words.append(words)
        self.request = replace(request, messages=tuple(drawn))

    def check(self, rendered: str) -> None:
        """Refuse messages of which the template drops one.

        Raises:
            ChatTemplateError: it does; names the first one.
        """
        messages = self.request.messages or ()
        for number, (message, expected) in enumerate(zip(messages, self.words, strict=True)):
            if not all(word in rendered for word in expected):
                complaint = "the model's chat template leaves this message out: send the others "
                complaint += f"without it{about_role(message['role'])}"
                raise ChatTemplateError(complaint, field=f"messages.{number}")


def about_role(role: str) -> str:
    """The role of a message, which is named only where it is no text of the client's own."""
    if role in ROLES:
        return f" (its role is {role})"
    return f" (its role is none of {', '.join(ROLES)})"
