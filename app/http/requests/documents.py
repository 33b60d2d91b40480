"""Documents that an answer is to stand on, as clients of others send them, too."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import ConfigDict, Discriminator, Field, Tag, model_validator

from app.http.requests.body import Body, having, refuse_if
from app.http.requests.values import Text
from models.errors import InvalidRequest

_MOST = 64

_OF_TEXT = having(["text"], ["data"], text="string")
_OF_DATA = having(["data"], ["text"], data="object")


class ClientDocument(Body):
    """A document with its text, or with `data`, as Cohere's clients send it."""

    model_config = ConfigDict(json_schema_extra={"anyOf": [_OF_TEXT, _OF_DATA]})
    other_names: ClassVar[Mapping[str, str]] = dict.fromkeys(("content", "page_content"), "text")
    may_be_text = True
    usual = frozenset({"text"})

    id: Annotated[Text, Field(min_length=1, max_length=256)] | None = None
    """By which the response names it. Default: its place among the documents, from 0."""
    title: Annotated[Text, Field(max_length=1024)] | None = None
    """What the model is shown above the text."""
    text: Text | None = None
    """What it says; spans of the response are places in it."""
    data: Annotated[dict[str, Text], Field(min_length=1, max_length=32)] | None = None
    """In place of both: `title` and `text`, or values that make the text, one a line."""

    @model_validator(mode="after")
    def _check_text(self) -> Self:
        why = "exactly one of text and data must be given"
        refuse_if((self.text is None) == (self.data is None), "text", why)
        return self


_Document = Annotated[
    Annotated[Text, Tag("#text")] | Annotated[ClientDocument, Tag("#document")],
    Discriminator(lambda given: {str: "#text"}.get(type(given), "#document")),
]


def _form(given: object) -> str | None:
    if isinstance(given, list):
        return "#documents"
    if given == "tools":
        return "#tools"
    return None


class DocumentsWanted(Body):
    """What was retrieved for the answer."""

    documents: Annotated[
        Annotated[Literal["tools"], Tag("#tools")]
        | Annotated[list[_Document], Field(max_length=_MOST, fail_fast=True), Tag("#documents")],
        Discriminator(
            _form,
            custom_error_type="documents",
            custom_error_message="Input should be a list of documents, or tools",
        ),
    ] = []  # noqa: RUF012
    """That were retrieved: the model is shown them, and each sentence of the answer is looked up in
    them. `units` is then `sentences` by default. `tools`: what tools have given in the
    conversation, if anything; at most 64 results."""
    documents_in: Literal["template", "prompt"] = "template"
    """`template`: the chat template shows them, or else they go before the last message of the
    user, with a warning; `prompt`: prompt or messages hold each, word for word, as they do
    with `documents` tools."""

    def document_fields(self, fields: Mapping[str, Any], *, of_tokens: bool) -> dict[str, Any]:
        """The fields of an `Ask` about documents, beside those that are there already.

        `of_tokens`: no samples are drawn for sentences that the request has not named as units.

        Raises:
            InvalidRequest: the conversation has too many results of tools.
        """
        about: dict[str, Any] = {"units": fields.get("units") or "sentences"}
        about["of_tokens"] = of_tokens or fields.get("of_tokens", False)
        if self.documents == "tools":
            return about | {"documents": _results(fields["messages"]), "documents_in": "tools"}
        documents = []
        for number, given in enumerate(self.documents):
            if isinstance(given, str):
                given = ClientDocument(text=given)
            data = dict(given.data or {"text": given.text or ""})
            title = given.title or data.pop("title", "")
            text = data.get("text", "\n".join(data.values()))
            documents.append({"doc_id": given.id or str(number), "title": title, "text": text})
        return about | {"documents": tuple(documents), "documents_in": self.documents_in}


def _results(messages: Sequence[Mapping[str, Any]]) -> tuple[dict[str, str], ...]:
    """What tools have given in a conversation, by the ids of their calls."""
    results = list[dict[str, str]]()
    for message in messages:
        if message["role"] == "tool":
            called = message.get("tool_call_id") or str(len(results))
            title, text = message.get("name", ""), message["content"]
            results.append({"doc_id": called, "title": title, "text": text})
    if len(results) > _MOST:
        why = f"tools has at most {_MOST} results, and this conversation has {len(results)}"
        raise InvalidRequest(why, field="documents")
    return tuple(results)
