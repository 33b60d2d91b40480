"""Pure: what a chat template shows of messages, by the words that stand in for what they say."""

import json
import secrets
from dataclasses import replace

from models.errors import ChatTemplateError
from models.records import GenerationRequest
from models.warnings import Warned

# That chat templates know. An error names no other one: that would be the client's text.
ROLES = ("system", "user", "assistant", "tool")
# The names of an earlier answer's reasoning in a message, which has it by both.
REASONINGS = ("reasoning_content", "reasoning")


class StandIns:
    """Drawn words in place of all that a request's messages say.

    What a template drops in silence, the words show once it has rendered them.
    """

    def __init__(self, request: GenerationRequest) -> None:
        # Of each word its message's number, and the warning where it is left out; None: an error.
        self.words: dict[str, tuple[int, Warned | None]] = {}
        messages = list(map(dict, request.messages or ()))
        self.request = replace(request, messages=tuple(messages))  # with the words
        for number, message in enumerate(messages):
            calls = []
            said: dict[tuple[str, ...], Warned | None] = {REASONINGS: Warned.REASONING_NOT_SHOWN}
            said["content",] = None
            for call in message.get("tool_calls", ()):
                name = self._word(number, None)
                function = {"name": name, "arguments": json.dumps({"a": name})}
                calls.append({**call, "function": function})
            if calls:
                message["tool_calls"] = calls
                said["content",] = Warned.TEXT_BESIDE_CALLS_NOT_SHOWN
            if message["role"] != "tool":
                said["name",] = Warned.NAMES_NOT_SHOWN
            for fields, warning in said.items():
                if message.get(fields[0]):
                    message |= dict.fromkeys(fields, self._word(number, warning))

    def _word(self, number: int, warning: Warned | None) -> str:
        word = f"f{secrets.token_hex(8)}"
        self.words[word] = number, warning
        return word

    def left_out(self, rendered: str | None) -> tuple[Warned, ...]:
        """Warnings of what the template leaves out; none where it has rendered nothing.

        Raises:
            ChatTemplateError: it leaves out what must be shown; names the first such message.
        """
        warnings = dict[Warned, None]()
        for word, (number, warning) in self.words.items():
            if rendered is None or word in rendered:
                continue
            if warning is None:
                role = (self.request.messages or ())[number]["role"]
                complaint = "the model's chat template leaves this message out: send the others "
                complaint += f"without it{about_role(role)}"
                raise ChatTemplateError(complaint, field=f"messages.{number}")
            warnings[warning] = None
        return tuple(warnings)


def about_role(role: str) -> str:
    """The role of a message, which is named only where it is no text of the client's own."""
    if role in ROLES:
        return f" (its role is {role})"
    return f" (its role is none of {', '.join(ROLES)})"
