"""What gateways and workers say to each other over HTTP; pure.

A call is a POST whose answer is a stream of lines, each of one JSON object: `{"token": …}` as a
sequence grows, and at the end `{"result": …}` or `{"error": …}`. A blank line says that the
work goes on. Everything that is read is checked, so that half an answer is none.

    GET  /v1/info                  the wire's version, what the worker is
    POST /v1/generate              request, streams → token …, generation
    POST /v1/first-token-logprobs  request, groups → log-probs, identity
    POST /v1/compare               comparer, texts, pairs of their positions → scores, identity
    POST /v1/fit-contexts          comparer, pairs of texts → contexts
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

import orjson
from pydantic import TypeAdapter

from models import errors
from models.codec import (
    generation_from_json,
    generation_to_json,
    request_from_json,
    request_to_json,
)
from models.ranges import ENTROPIES, LOGPROBS, PROBABILITIES, number
from models.records import Generation, GenerationRequest, Pair, Token
from models.similarity.protocol import ContextAndText
from models.statistics import PROBE_STATISTICS
from models.waves import num_taken
from workers.protocol import ComparerInfo, FirstTokenReply, GeneratorInfo, PairReply, PairScore

VERSION = 1
# Headers of every call.
WIRE_HEADER = "X-Cocoa-Wire"
TIMEOUT_HEADER = "X-Timeout-S"
SESSION_HEADER = "X-Session-ID"
REQUEST_ID_HEADER = "X-Request-ID"

# Blank lines come more often than whoever waits gives up.
HEARTBEAT_S = 5.0
HEARTBEAT = b"\n"

# Larger calls are split: what a worker holds at once of one of them.
MAX_PAIRS = 4096
MAX_CHARACTERS = 4_000_000


class Garbled(Exception):
    """What came is no answer to what was asked; the text quotes nothing of it."""


@dataclass(frozen=True, slots=True)
class GenerationInfo:
    """What `/v1/info` of a generation worker says."""

    generator: GeneratorInfo
    wire: int = VERSION

    @classmethod
    def of(cls, info: GeneratorInfo) -> Self:
        """Of a generator, its mappings as dictionaries, the only ones that pydantic writes."""
        probes, absent = dict(info.probes), dict(info.absent)
        capabilities = dict(info.capabilities)
        return cls(replace(info, probes=probes, absent=absent, capabilities=capabilities))


@dataclass(frozen=True, slots=True)
class SimilarityInfo:
    """What `/v1/info` of a similarity worker says: its models, the NLI model apart."""

    comparers: Mapping[str, ComparerInfo]
    nli: ComparerInfo | None = None
    wire: int = VERSION


_INFOS: dict[str, TypeAdapter[Any]] = {
    "generation": TypeAdapter(GenerationInfo),
    "similarity": TypeAdapter(SimilarityInfo),
}


def encode_info(kind: str, info: GenerationInfo | SimilarityInfo) -> bytes:
    """The body of `/v1/info`."""
    body: bytes = _INFOS[kind].dump_json(info)
    return body


def decode_info(kind: str, body: bytes) -> Any:
    """What `encode_info` was given.

    Raises:
        Garbled: it is another thing, or of another version of the wire.
    """
    try:
        version = orjson.loads(body)["wire"]
        if version != VERSION:
            raise Garbled(f"it speaks version {version!r:.20} of the wire, not {VERSION}")
        return _INFOS[kind].validate_json(body)
    except (ValueError, LookupError, TypeError):
        raise Garbled(f"it is no {kind} worker") from None


def encode_generate(request: GenerationRequest, *, streams: bool) -> bytes:
    """The body of `/v1/generate`; without the deadline, of which a header tells what is left."""
    # Not orjson, which knows no integer beyond 64 bits; a template may be given one.
    return json.dumps({"request": request_to_json(request), "streams": streams}).encode()


def decode_generate(body: bytes, timeout_s: float | None) -> tuple[GenerationRequest, bool]:
    """What `encode_generate` was given.

    Raises:
        Garbled: it is no such body.
    """
    with _garbled("no request"):
        value = json.loads(body)
        return _request(value["request"], timeout_s), bool(value["streams"])


def encode_first_token(request: GenerationRequest, groups: Sequence[Sequence[str]]) -> bytes:
    """The body of `/v1/first-token-logprobs`."""
    return json.dumps({"request": request_to_json(request), "groups": groups}).encode()


def decode_first_token(
    body: bytes, timeout_s: float | None
) -> tuple[GenerationRequest, list[list[str]]]:
    """What `encode_first_token` was given.

    Raises:
        Garbled: it is no such body.
    """
    with _garbled("no request"):
        value = json.loads(body)
        groups = [[str(text) for text in group] for group in value["groups"]]
        return _request(value["request"], timeout_s), groups


def encode_generation(generation: Generation) -> bytes:
    """The result of `/v1/generate`."""
    return _dumps({"result": generation_to_json(generation)})


def decode_generation(value: Any, request: GenerationRequest) -> Generation:
    """What `encode_generation` was given, if it answers the request.

    Raises:
        Garbled: it does not.
    """
    with _garbled("no generation"):
        generation = generation_from_json(value)
        _check_answers(request, generation)
        return generation


def encode_first_token_reply(reply: FirstTokenReply) -> bytes:
    """The result of `/v1/first-token-logprobs`."""
    return _dumps({"result": {"logprobs": reply.logprobs, "identity": reply.identity}})


def decode_first_token_reply(value: Any, num_groups: int) -> FirstTokenReply:
    """What `encode_first_token_reply` was given.

    Raises:
        Garbled: it is no such reply to that many groups.
    """
    with _garbled("no log-probs of first tokens"):
        logprobs = tuple(
            None if one is None else number(one, LOGPROBS) for one in value["logprobs"]
        )
        _expect(len(logprobs) == num_groups)
        return FirstTokenReply(logprobs, _text(value["identity"]))


def encode_compare(comparer: str | None, pairs: Sequence[Pair]) -> bytes:
    """The body of `/v1/compare`: each text once, however many pairs it is in.

    Args:
        comparer: name of the similarity function; None for the NLI model.
        pairs: of texts.
    """
    positions: dict[str, int] = {}
    for pair in pairs:
        for text in pair:
            positions.setdefault(text, len(positions))
    rows = [[positions[a], positions[b]] for a, b in pairs]
    return _dumps({"comparer": comparer, "texts": list(positions), "pairs": rows})


def decode_compare(body: bytes) -> tuple[str | None, list[Pair]]:
    """What `encode_compare` was given.

    Raises:
        Garbled: it is no such body.
    """
    with _garbled("no pairs"):
        value = orjson.loads(body)
        texts = [_text(text) for text in value["texts"]]
        pairs = [(texts[a], texts[b]) for a, b in value["pairs"]]
        return value["comparer"], pairs


def encode_pair_reply(pairs: Sequence[Pair], reply: PairReply) -> bytes:
    """The result of `/v1/compare`, in the order of the pairs."""
    scores = [reply.scores[pair] for pair in pairs]
    return _dumps({"result": {"scores": scores, "identity": reply.identity}})


def decode_pair_reply(value: Any, pairs: Sequence[Pair], num_labels: int) -> PairReply:
    """What `encode_pair_reply` was given.

    Raises:
        Garbled: it is no such reply to these pairs.
    """
    with _garbled("no scores of these pairs"):
        scores = [_score(score, num_labels) for score in value["scores"]]
        return PairReply(dict(zip(pairs, scores, strict=True)), _text(value["identity"]))


def encode_fit(comparer: str | None, texts: Sequence[ContextAndText]) -> bytes:
    """The body of `/v1/fit-contexts`; see `encode_compare`."""
    return _dumps({"comparer": comparer, "texts": texts})


def decode_fit(body: bytes) -> tuple[str | None, list[ContextAndText]]:
    """What `encode_fit` was given.

    Raises:
        Garbled: it is no such body.
    """
    with _garbled("no texts"):
        value = orjson.loads(body)
        return value["comparer"], [
            (_text(context), _text(text)) for context, text in value["texts"]
        ]


def encode_contexts(contexts: Sequence[str]) -> bytes:
    """The result of `/v1/fit-contexts`."""
    return _dumps({"result": contexts})


def decode_contexts(value: Any, texts: Sequence[ContextAndText]) -> list[str]:
    """What `encode_contexts` was given.

    Raises:
        Garbled: it has no right part of each context.
    """
    with _garbled("no contexts"):
        contexts = [_text(context) for context in value]
        for context, (whole, _) in zip(contexts, texts, strict=True):
            _expect(whole.endswith(context))
        return contexts


def encode_token(token: Token) -> bytes:
    """One further token of what is streamed."""
    return _dumps({"token": [token.text, token.logprob, token.entropy]})


def decode_token(value: Any) -> Token:
    """What `encode_token` was given.

    Raises:
        Garbled: it is no token.
    """
    with _garbled("no token"):
        text, logprob, entropy = value
        return Token(
            _text(text),
            None if logprob is None else number(logprob, LOGPROBS),
            None if entropy is None else number(entropy, ENTROPIES),
        )


def encode_error(error: errors.CocoaError) -> bytes:
    """A typed error as a line."""
    return _dumps(error_to_json(error))


def error_to_json(error: errors.CocoaError) -> dict[str, Any]:
    """A typed error as an object."""
    names = ("code", "message", "field", "retry_after_s")
    return {"error": {name: getattr(error, name) for name in names}}


def decode_error(value: Any) -> errors.CocoaError:
    """The error of this code, as it was raised in the worker.

    Raises:
        Garbled: it is no error that we know.
    """
    with _garbled("no error"):
        kind = _ERRORS[value["code"]]
        field = None if value["field"] is None else _text(value["field"])
        retry_after_s = value["retry_after_s"]
        _expect(retry_after_s is None or type(retry_after_s) is int)
        return kind(_text(value["message"]), field=field, retry_after_s=retry_after_s)


def parts(pairs: Sequence[Pair]) -> Iterator[Sequence[Pair]]:
    """The pairs in calls that are not too large.

    >>> [len(part) for part in parts([("a", "b")] * (MAX_PAIRS + 1))]
    [4096, 1]
    """
    start, num_characters = 0, 0
    for i, (a, b) in enumerate(pairs):
        num_characters += len(a) + len(b)
        if i > start and (i - start == MAX_PAIRS or num_characters > MAX_CHARACTERS):
            yield pairs[start:i]
            start, num_characters = i, len(a) + len(b)
    if start < len(pairs):
        yield pairs[start:]


@contextmanager
def _garbled(what: str) -> Iterator[None]:
    """Whatever goes wrong within means that what is read is not `what` it should be."""
    try:
        yield
    except (ValueError, LookupError, TypeError):
        raise Garbled(what) from None


def _kinds(kind: type[errors.CocoaError]) -> Iterator[type[errors.CocoaError]]:
    yield kind
    for one in kind.__subclasses__():
        yield from _kinds(one)


_ERRORS = {kind.code: kind for kind in _kinds(errors.CocoaError)}


def _request(value: Mapping[str, Any], timeout_s: float | None) -> GenerationRequest:
    return request_from_json({**value, "timeout_s": timeout_s})


def _check_answers(request: GenerationRequest, generation: Generation) -> None:
    """Refuse a generation that lacks something of what was asked for, or that has too much."""
    _expect(num_taken(request, generation) == len(generation.samples))
    wanted, supplied = request.statistics, {"answer": [generation.answer]}
    supplied["sample"] = list(generation.samples)
    for role, sequences in supplied.items():
        for name in ("token_logprobs", "token_entropies", "token_texts"):
            is_wanted = f"{role}_{name}" in wanted
            for sequence in sequences:
                _expect((getattr(sequence, name) is not None) == is_wanted)
    _expect(generation.probe_readings.keys() <= wanted & PROBE_STATISTICS)
    hidden = generation.answer_hidden_mean
    _expect((0 if hidden is None else len(hidden)) == len(request.hidden_layers))


def _logprob(value: Any) -> float | None:
    return None if value is None else number(value, LOGPROBS)


def _score(value: Any, num_labels: int) -> PairScore:
    values, is_cut = value
    _expect(len(values) == num_labels and type(is_cut) is bool)
    return tuple(number(one, PROBABILITIES) for one in values), is_cut


def _text(value: Any) -> str:
    _expect(type(value) is str)
    return str(value)


def _expect(is_so: bool) -> None:
    if not is_so:
        raise ValueError


def _dumps(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE)
