"""Pure: the faults of a body in plain words, for people who do not know how it is checked."""

from collections.abc import Iterator
from typing import Any, get_args

from pydantic import ValidationError

from app.http.requests.body import BODIES, Body
from app.spelling import did_you_mean

_NO_OBJECT = ("model_type", "model_attributes_type", "dict_type")
_MAX_FAULTS = 5


def faults_of(error: ValidationError) -> list[Any]:
    """The first of pydantic's errors, their messages reworded where they speak of Python.

    A part of a place that begins with # is the tag of a union; the first of them names its body.
    """
    faults: list[Any] = error.errors(include_url=False)[:_MAX_FAULTS]
    for fault in faults:
        place = tuple(fault["loc"])
        body = _body_at(place[:-1], error.title)
        if fault["type"] == "extra_forbidden" and body is not None:
            fault["msg"] += _instead(str(place[-1]), body)
        elif fault["type"] in _NO_OBJECT:
            fault["msg"] = _no_object(place, fault["input"], error.title)
        elif fault["type"] == "recursion_depth_exceeded":
            fault["msg"] = "is nested too deeply"
    return faults


def _instead(name: str, body: type[Body]) -> str:
    """The end of a message about an unknown field."""
    if body.ignored and name in body.nothing and name not in body.other_names:
        return f": leave it out, or send {str(body.nothing[name]).lower()}"
    return did_you_mean(body.nearest(name))


def _no_object(place: tuple[int | str, ...], given: object, title: str) -> str:
    if all(str(part).startswith("#") for part in place):
        if given is None:
            return "the body is missing: send a JSON object"
        return "the body must be a JSON object"
    message = "must be an object"
    names = []
    if (body := _body_at(place, title)) is not None:
        if body.may_be_text:
            message = "must be a text or an object"
        for name, field in body.model_fields.items():
            if field.is_required() or name in body.usual:
                names.append(f'"{name}": "…"')
    if names:
        message += f", such as {{{', '.join(names)}}}"
    return message


def _body_at(place: tuple[int | str, ...], title: str) -> type[Body] | None:
    """The class of the body at a place in the body of this title; None where it is none."""
    body = BODIES.get(title)
    for part in place:
        if isinstance(part, int):
            continue
        if part.startswith("#"):
            body = BODIES.get(part.removeprefix("#"), body)
        elif body is not None:
            field = body.model_fields.get(part)
            body = None if field is None else next(_bodies_in(field.annotation), None)
    return body


def _bodies_in(annotation: Any) -> Iterator[type[Body]]:
    if isinstance(annotation, type) and issubclass(annotation, Body):
        yield annotation
    for part in get_args(annotation):
        yield from _bodies_in(part)
