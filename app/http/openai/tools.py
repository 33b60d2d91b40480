"""Calls of tools as OpenAI's clients send them back, and as answers have them."""

import json
import secrets
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from app.http.described import Described
from app.http.requests.fields import Body, NullIsDefault, encodable
from app.http.requests.tools import ToolName
from models.units.tool_calls import Call, num_settled, segments

# Some templates take identifiers of nine characters only.
_ID_CHARACTERS = 9


def _arguments(text: str) -> str:
    """The text, if it is a JSON object; nothing at all stands for an empty one."""
    try:
        known = json.loads(text or "{}")
    except (ValueError, RecursionError):
        known = None
    if not isinstance(known, dict):
        raise PydanticCustomError("no_arguments", "Input should be a JSON object, as a string")
    return text or "{}"


class FunctionCalled(Body):
    """A tool, and what it was called with."""

    name: ToolName
    arguments: Annotated[str, AfterValidator(encodable), AfterValidator(_arguments)]
    """A JSON object, as a string."""


class ToolCalled(NullIsDefault):
    """A call of an earlier answer, sent back."""

    id: Annotated[str, Field(max_length=256), AfterValidator(encodable)]
    type: Literal["function"] = "function"
    function: FunctionCalled


class FunctionInfo(Described):
    """A tool, and what it is called with."""

    name: str
    """of the tool"""
    arguments: str
    """a JSON object, as the model wrote it"""


class ToolCallInfo(Described):
    """A call that the model asks for."""

    id: str
    """by which the message with its result names it"""
    type: Literal["function"] = "function"
    """always function"""
    function: FunctionInfo
    """the tool and its arguments"""


def call_info(call: Call) -> ToolCallInfo:
    """A call as an answer has it."""
    function = FunctionInfo(name=call.name, arguments=call.arguments)
    return ToolCallInfo(id=secrets.token_hex(_ID_CHARACTERS)[:_ID_CHARACTERS], function=function)


def parted(found: Sequence[str | Call]) -> tuple[str | None, list[Call]]:
    """What an answer says beside its calls, None for nothing, and the calls."""
    calls = [one for one in found if isinstance(one, Call)]
    return "\n".join(one for one in found if isinstance(one, str)) or None, calls


class CallStream:
    """An answer that grows: the same texts and calls that `parted` finds in the whole one.

    Args:
        names: of the tools that there are.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._pending = ""
        self._is_start = True
        self._in_text = False
        self._has_text = False

    def add(self, text: str) -> list[str | Call]:
        """What became certain with a further text."""
        self._pending += text
        settled = num_settled(self._pending, is_start=self._is_start)
        if not settled:
            return []
        text, self._pending = self._pending[:settled], self._pending[settled:]
        return self._told(text)

    def finish(self) -> list[str | Call]:
        """The rest."""
        text, self._pending = self._pending, ""
        return self._told(text)

    def _told(self, text: str) -> list[str | Call]:
        found = segments(text, self._names if self._is_start else ())
        self._is_start = False
        told: list[str | Call] = []
        for i, one in enumerate(found):
            if isinstance(one, Call):
                self._in_text = False
                told.append(one)
                continue
            if i + 1 < len(found) or not self._pending:
                one = one.rstrip()
            if not self._in_text:
                one = one.lstrip()
            if not one:
                continue
            if self._has_text and not self._in_text:
                one = f"\n{one}"
            self._in_text = self._has_text = True
            told.append(one)
        return told
