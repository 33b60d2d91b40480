"""Calls of tools as answers have them."""

import secrets
from collections.abc import Sequence
from typing import Literal

from app.http.described import Described
from models.units.tool_calls import Call

# Some templates take identifiers of nine characters only.
_ID_CHARACTERS = 9


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
    function = FunctionInfo(name=call.name, arguments=call.arguments)
    return ToolCallInfo(id=secrets.token_hex(_ID_CHARACTERS)[:_ID_CHARACTERS], function=function)


def parted(found: Sequence[str | Call]) -> tuple[str | None, list[Call]]:
    """What an answer says beside its calls, None for nothing, and the calls."""
    calls = [one for one in found if isinstance(one, Call)]
    return "\n".join(one for one in found if isinstance(one, str)) or None, calls
