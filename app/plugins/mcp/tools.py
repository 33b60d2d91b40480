"""The tools, and what each returns. They send bodies of the HTTP API, wherever that is."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Annotated, Any, Literal

from fastapi.exceptions import RequestValidationError
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, InputRequiredResult, ToolAnnotations
from pydantic import BaseModel, Field, ValidationError

from app.http.errors import failure
from app.http.requests.faults import faults_of

# Takes path and body of a request; returns status and JSON object of its response.
Post = Callable[[str, Mapping[str, Any]], Awaitable[tuple[int, Mapping[str, Any]]]]

GENERATE, SCORE, FEEDBACK = "/generate-with-uncertainty", "/score", "/feedback"
_INSTRUCTIONS = """\
A language model that says how sure it is. `answer` asks it; `check` and `check_fields` say how sure
it is of an answer that exists already; `check` says whether documents say it, too. Uncertainties
have no scale of their own: go by `confidence`, the probability that the answer is right, or give
`target_error` and go by `accept`. Where they are null, `reasons` says why. `report` tells the
service whether an answer was right."""

Question = Annotated[str, Field(min_length=1, description="What is asked, by a user in a chat.")]
AsPrompt = Annotated[
    bool, Field(description="The model continues the question as raw text, and not in a chat.")
]
TargetError = Annotated[
    float | None,
    Field(description="Largest wanted share of wrong answers among those that are accepted."),
]

Documents = Annotated[
    list[str] | None,
    Field(description="Texts that the answer was to stand on, which the model is shown, too."),
]


class Verdict(BaseModel):
    """How sure the model is of an answer."""

    id: str = Field(description="Of this answer, for `report`.")
    text: str | None = Field(description="The answer.")
    refusal: str | None = Field(
        default=None, description="What the model's server says in place of an answer."
    )
    confidence: float | None = Field(description="Probability that the answer is right, 0 to 1.")
    accept: bool | None = Field(description="Whether it may pass; null without `target_error`.")
    guarantee: str | None = Field(description="What `accept` promises.")
    action: str | None = Field(description="What to do with it: accept, verify or hand_over.")
    reason: str | None = Field(description="Why, in a sentence.")
    estimator: str = Field(description="Whose score is the uncertainty.")
    uncertainty: float | None = Field(description="Higher is less sure.")
    reasons: dict[str, str] = Field(description="Why a value is null, by its name.")
    warnings: list[str] = Field(description="What to know before trusting the scores.")


class SentenceVerdict(BaseModel):
    """How far documents say one sentence of an answer."""

    text: str = Field(description="The sentence.")
    grounded: float = Field(description="0 where no document says it, 1 where one says all of it.")
    document: int | None = Field(description="Which says most of it, from 0; null for none.")
    quote: str | None = Field(description="The words there.")
    missing: list[str] = Field(description="Its numbers and names that stand in no document.")


class CheckVerdict(Verdict):
    """How sure the model is of an answer, and how far documents say each of its sentences."""

    grounded: float | None = Field(description="Mean over the sentences; null without documents.")
    sentences: list[SentenceVerdict] = Field(description="With documents: all of the answer.")


class FieldVerdict(BaseModel):
    """How sure the model is of one value of a JSON answer."""

    path: str = Field(description="JSON Pointer of the value.")
    value: str = Field(description="As JSON.")
    uncertainty: float | None = Field(description="Higher is less sure.")
    support: float | None = Field(description="How far samples have the same value, 0 to 1.")
    alternatives: list[str] = Field(description="Values of samples as JSON, most frequent first.")


class FieldsVerdict(Verdict):
    """How sure the model is of a JSON answer and of each of its values."""

    fields: list[FieldVerdict] = Field(description="The least sure first.")


class Reported(BaseModel):
    """A label that is kept."""

    id: str = Field(description="Of the answer.")


# Fields of a verdict that the API's decision has.
_DECIDED = ("accept", "guarantee", "action", "reason")


class _Server(MCPServer):
    """Refuses unknown arguments as the API does, and quotes none in errors."""

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context | None = None
    ) -> CallToolResult | InputRequiredResult:
        """The result of the tool; raises a `ToolError` where it fails."""
        # As in the API null means the same as leaving it out.
        arguments = {field: value for field, value in arguments.items() if value is not None}
        for tool in await self.list_tools():
            unknown = arguments.keys() - tool.input_schema["properties"].keys()
            if tool.name == name and unknown:
                given = {"type": "extra_forbidden", "msg": "Extra inputs are not permitted"}
                raise _refusal([given | {"loc": (min(unknown),)}])
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if not isinstance(error.__cause__, ValidationError):
                raise
            raise _refusal(faults_of(error.__cause__)) from None


def _refusal(faults: list[Any]) -> ToolError:
    _, body = failure(RequestValidationError(faults), "")
    return ToolError(_message_of(body.model_dump()))


_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_WRITES = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)


def make_server(post: Post) -> MCPServer:
    server = _Server(
        "cocoa", instructions=_INSTRUCTIONS, version=version("cocoa-serve"), log_level="WARNING"
    )

    @server.tool(annotations=_READS)
    async def answer(
        question: Question,
        *,
        as_prompt: AsPrompt = False,
        mode: Annotated[
            Literal["full", "light"],
            Field(description="`light` is faster: a probe in place of samples."),
        ] = "full",
        max_new_tokens: Annotated[int | None, Field(ge=1, description="Its most tokens.")] = None,
        target_error: TargetError = None,
    ) -> Verdict:
        """Ask the language model, and learn how sure it is of its answer."""
        body = _body_of(question, as_prompt) | {
            "mode": mode,
            "max_new_tokens": max_new_tokens,
            "target_error": target_error,
        }
        return Verdict.model_validate(_verdict(await _posted(post, GENERATE, body)))

    @server.tool(annotations=_READS)
    async def check(
        question: Question,
        answer: Annotated[str, Field(description="The answer to be judged.")],
        *,
        documents: Documents = None,
        as_prompt: AsPrompt = False,
        target_error: TargetError = None,
    ) -> CheckVerdict:
        """Learn how sure the model is of an answer, and whether documents say each sentence."""
        body = _body_of(question, as_prompt) | {"answer": answer}
        sure, held = dict[str, Any](target_error=target_error), dict[str, Any]()
        if documents:
            body["documents"] = documents
            if as_prompt:  # which holds them
                body["documents_in"] = "prompt"
            held = dict(await _posted(post, SCORE, body))  # by rules, which ask no model
            sure |= {"units": "answer", "explain": False}  # the latter has the model asked
        verdict = _verdict(await _posted(post, SCORE, body | sure))
        about = {"grounded": held.get("grounded"), "sentences": _sentences(held, documents or [])}
        return CheckVerdict.model_validate(verdict | about)

    @server.tool(annotations=_READS)
    async def check_fields(
        question: Question,
        answer: Annotated[str, Field(description="A JSON text to be judged value by value.")],
        *,
        json_schema: Annotated[
            dict[str, Any] | None,
            Field(description="That the answer follows; it says how values are compared."),
        ] = None,
        as_prompt: AsPrompt = False,
    ) -> FieldsVerdict:
        """Learn which values of a JSON answer the language model is unsure of."""
        body = _body_of(question, as_prompt) | {
            "answer": answer,
            "units": "fields",
            "json_schema": json_schema,
        }
        response = await _posted(post, SCORE, body)
        return FieldsVerdict.model_validate(_verdict(response) | {"fields": _fields(response)})

    @server.tool(annotations=_WRITES)
    async def report(
        id: Annotated[str, Field(description="Of a verdict.")],
        correct: Annotated[bool, Field(description="Whether that answer was right.")],
    ) -> Reported:
        """Tell whether an answer was right, so that confidences become better."""
        kept = await _posted(post, FEEDBACK, {"id": id, "correct": correct})
        return Reported(id=kept["id"])

    return server


def _body_of(question: str, as_prompt: bool) -> dict[str, Any]:
    if as_prompt:
        return {"prompt": question}
    return {"messages": [{"role": "user", "content": question}]}


async def _posted(post: Post, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The response; fields without a value are left out, and get the API's defaults."""
    given = {name: value for name, value in body.items() if value is not None}
    status, response = await post(path, given)
    if status == 200:
        return response
    raise ToolError(_message_of(response["error"]))


def _message_of(error: Mapping[str, Any]) -> str:
    message = f"{error['code']}: {error['message']}"
    if error["field"]:
        message += f" (field {error['field']})"
    return message


def _verdict(response: Mapping[str, Any]) -> dict[str, Any]:
    decision = response.get("decision") or {}
    named = {name: response[name] for name in Verdict.model_fields if name in response}
    return named | {name: decision.get(name) for name in _DECIDED}


def _sentences(response: Mapping[str, Any], documents: Sequence[str]) -> list[dict[str, Any]]:
    """`SentenceVerdict` each, in their order."""
    sentences = []
    for unit in response.get("units", ())[1:]:
        said = {"text": unit["text"], "document": None, "quote": None} | unit["documents"]
        if "id" in said:
            said["document"] = int(said["id"])
            said["quote"] = documents[said["document"]][slice(*said["span"])]
        sentences.append(said)
    return sentences


def _fields(response: Mapping[str, Any]) -> list[dict[str, Any]]:
    """`FieldVerdict` each, the least sure first; those without a score last, in their order."""
    fields = []
    for unit in response["units"] or ():
        if unit["kind"] != "field":
            continue
        values = [other["value"] for other in unit.get("alternatives", ())]
        fields.append(
            {
                "path": unit["path"],
                "value": unit["text"],
                "uncertainty": unit["uncertainty"],
                "support": unit.get("support"),
                "alternatives": [value for value in values if value is not None],
            }
        )
    fields.sort(key=lambda field: (field["uncertainty"] is None, -(field["uncertainty"] or 0.0)))
    return fields
