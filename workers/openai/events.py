"""From the events of a stream to one reply. Pure; whatever makes no sense is `Unreachable`."""

from collections.abc import Mapping
from typing import Any

from workers.client import Unreachable
from workers.openai.called import add
from workers.openai.replies import reasoning_in


def merged(events: list[Any]) -> dict[str, Any]:
    """One reply of all events of a stream, as if it had come at once.

    Raises:
        Unreachable: they make no sense.
    """
    choices: dict[int, dict[str, Any]] = {}
    rest: dict[str, Any] = {}
    try:
        for event in events:
            for name in ("usage", "system_fingerprint"):
                if event.get(name):
                    rest[name] = event[name]
            for piece in event.get("choices") or ():
                index = piece.get("index", 0)
                _add(choices.setdefault(index, {"index": index, "logprobs": None}), piece)
    except (AttributeError, TypeError, ValueError):
        raise Unreachable("its answer makes no sense") from None
    return rest | {"choices": list(choices.values())}


def _add(choice: dict[str, Any], piece: Mapping[str, Any]) -> None:
    """Add what one event says of a choice to what is known of it."""
    if "delta" in piece:
        message = choice.setdefault("message", {"content": ""})
        message["content"] += piece["delta"].get("content") or ""
        if calls := piece["delta"].get("tool_calls"):
            add(message.setdefault("tool_calls", []), calls)
        if refusal := piece["delta"].get("refusal"):
            message["refusal"] = message.get("refusal", "") + refusal
        if thoughts := reasoning_in(piece["delta"]):
            message["reasoning"] = message.get("reasoning", "") + thoughts
    else:
        choice["text"] = choice.get("text", "") + (piece.get("text") or "")
    if piece.get("token_ids") is not None:
        choice["token_ids"] = [*choice.get("token_ids", ()), *piece["token_ids"]]
    if told := piece.get("logprobs"):
        known = choice["logprobs"] or {}
        for name, values in told.items():
            if values:
                known = known | {name: [*known.get(name, ()), *values]}
        choice["logprobs"] = known
    for name in ("finish_reason", "stop_reason"):
        if piece.get(name) is not None:
            choice[name] = piece[name]
