"""A language model as the judge of sentences and claims.

Each is judged with its question and its answer: by a reference where the data has one (`context`),
else by what the model knows. What it said is kept in a file, so that no part is judged twice.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from cocoa_lab.examples import Example
from cocoa_lab.judge import Asked, Messages, content_of
from cocoa_lab.judges import Judge, Verdict
from cocoa_lab.lines import objects_in
from cocoa_lab.log import LineFile

_LABELS, _NO_LABEL = ("true", "false", "unverifiable"), "no label"
_SCHEMA = {
    "type": "object",
    "properties": {"label": {"type": "string", "enum": _LABELS}},
    "required": ["label"],
    "additionalProperties": False,
}
_FORMAT = {
    "type": "json_schema",
    "json_schema": {"name": "judgement", "strict": True, "schema": _SCHEMA},
}
_SYSTEM = "You check facts. You judge one statement of an answer, read as the answer means it."
_BY_REFERENCE = (
    'Judge by the reference alone: "true" if it says so, "false" if it says otherwise, '
    '"unverifiable" if it says nothing of it.'
)
_BY_KNOWLEDGE = (
    'Judge by what you know: "true", "false", or "unverifiable" if you do not know, or if the '
    "statement says nothing that can be checked."
)
# The server's word on this request alone; of others, an error is an error of all.
_REFUSED = (400, 413, 422)


@dataclass(frozen=True, slots=True)
class Judgements:
    """What a model said of the parts of a run, and what that took.

    Attributes:
        model: its name.
        labels: label to the number of statements that have it; beside the labels "no label", of
            replies that hold none, and "refused with 400", of what the server did not take.
        prompt_tokens, reply_tokens: of all replies, those of earlier runs included.
    """

    model: str
    labels: Mapping[str, int]
    prompt_tokens: int
    reply_tokens: int


class ModelJudge:
    """Labels statements, none of them twice.

    Args:
        asked: asks the model.
        model: its name.
        path: file of what it said, to be continued where it exists.
    """

    def __init__(self, asked: Asked, model: str, path: Path) -> None:
        self._asked, self._model = asked, model
        self._known: dict[str, Mapping[str, Any]] = {}
        self._used: dict[str, Mapping[str, Any]] = {}
        if path.exists():
            self._known = {line["key"]: line for line in objects_in(path, "key")}
        self._file = LineFile(path)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def of(self, example: Example) -> Judge:
        """The judge of the parts of an answer to this.

        What a reference does not say is wrong; what the model itself does not know has no label.
        """

        async def judge(answer: str, statements: Sequence[str]) -> list[Verdict | None]:
            found = []
            for statement in statements:
                label = await self._label(messages_of(example, answer, statement))
                found.append(_verdict(label, has_reference=example.context is not None))
            return found

        return judge

    def told(self) -> Judgements:
        """What it said of all that was judged so far."""
        used = self._used.values()
        tokens = [sum(line[name] for line in used) for name in ("prompt_tokens", "reply_tokens")]
        labels = dict(sorted(Counter(line["label"] for line in used).items()))
        return Judgements(self._model, labels, *tokens)

    async def _label(self, messages: Messages) -> str:
        key = hashlib.sha256(json.dumps([self._model, messages]).encode()).hexdigest()
        if key not in self._known:
            try:
                reply = await self._asked(messages, response_format=_FORMAT)
            except httpx.HTTPStatusError as error:
                if error.response.status_code not in _REFUSED:
                    raise
                label = f"refused with {error.response.status_code}"  # another run may ask again
                self._known[key] = {"label": label, "prompt_tokens": 0, "reply_tokens": 0}
            else:
                self._known[key] = {"key": key, "label": label_of(reply), **_usage(reply)}
                self._file.append(self._known[key])
        self._used[key] = self._known[key]
        return str(self._known[key]["label"])


def messages_of(example: Example, answer: str, statement: str) -> Messages:
    """What asks for the label of one statement."""
    told, by = "", _BY_KNOWLEDGE
    if example.context is not None:
        told, by = f"Reference:\n{example.context}\n\n", _BY_REFERENCE
    asked = f"Question:\n{example.prompt}\n\nAnswer:\n{answer}\n\nStatement:\n{statement}"
    return [
        {"role": "system", "content": _SYSTEM},
        {"role": "user", "content": f"{told}{asked}\n\n{by}"},
    ]


def label_of(reply: Any) -> str:
    """The label of a chat completion under the schema; `"no label"` of everything else."""
    try:
        label = json.loads(content_of(reply))["label"]
    except (KeyError, TypeError, ValueError):
        return _NO_LABEL
    if label not in _LABELS:
        return _NO_LABEL
    return str(label)


def _usage(reply: Mapping[str, Any]) -> dict[str, int]:
    usage = reply.get("usage") or {}
    names = {"prompt_tokens": "prompt_tokens", "reply_tokens": "completion_tokens"}
    return {ours: int(usage.get(theirs) or 0) for ours, theirs in names.items()}


def _verdict(label: str, *, has_reference: bool) -> Verdict | None:
    if label == "true":
        return Verdict(is_right=True)
    if label == "false" or (label == "unverifiable" and has_reference):
        return Verdict(is_right=False, error=label)
    return None
