"""What gateways and workers say to each other over HTTP; pure.

A call is a POST whose answer is a stream of lines. Each begins with the digest of the call, before
one JSON object: `{"token": …}` as a sequence grows, at the end `{"result": …}` or `{"error": …}`. A
blank line says that the work goes on. Everything that is read is checked, so that half an answer is
none: each `decode_…` gives what was said at the other end, or raises `Garbled`.

    GET  /v1/info                  the wire's version, what the worker is
    POST /v1/generate              request, streams → token …, generation
    POST /v1/first-token-logprobs  request, groups → log-probs, identity
    POST /v1/compare               comparer, texts, pairs of their positions → scores, identity
    POST /v1/fit-contexts          comparer, pairs of texts → contexts
    POST /v1/token-ends            texts → the NLI model's tokens, by the character behind each
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import orjson
from pydantic import ConfigDict, Strict, TypeAdapter, with_config
from typing_extensions import TypedDict

from models import errors
from models.codec import (
    generation_from_json,
    request_from_json,
    request_to_json,
)
from models.ranges import Entropy, Logprob, Probability
from models.records import DEFAULT_NEW_TOKENS, Generation, GenerationRequest, Pair, Token
from models.similarity.protocol import ContextAndText
from models.statistics import (
    ANSWER_STATISTICS,
    PROBE_STATISTICS,
    SAMPLE_STATISTICS,
    SENTENCES_READ,
    STATISTICS,
)
from models.waves import num_taken
from workers.protocol import ComparerInfo, FirstTokenReply, GeneratorInfo, PairReply, PairScore

VERSION = 5
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
# Of a token's text, on the average.
_MAX_TOKEN_CHARACTERS = 1024

Texts = TypeVar("Texts", str, tuple[str, str])

# JSON has no tuples.
_FROM_LIST = Strict(False)
EXACT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class Garbled(Exception):
    """What came is no answer to what was asked; the text quotes nothing of it."""


@dataclass(frozen=True, slots=True)
class GenerationInfo:
    """What `/v1/info` of a generation worker says."""

    generator: GeneratorInfo
    wire: int = VERSION


@dataclass(frozen=True, slots=True)
class SimilarityInfo:
    """What `/v1/info` of a similarity worker says: its models, the NLI model apart."""

    comparers: Mapping[str, ComparerInfo]
    nli: ComparerInfo | None = None
    wire: int = VERSION


@with_config(EXACT)
class _Generate(TypedDict):
    request: dict[str, Any]
    streams: bool


@with_config(EXACT)
class _FirstToken(TypedDict):
    request: dict[str, Any]
    groups: list[list[str]]


@with_config(EXACT)
class _FirstTokenReply(TypedDict):
    logprobs: list[Logprob | None]
    identity: str


@with_config(EXACT)
class _Compare(TypedDict):
    comparer: str | None
    texts: list[str]
    pairs: list[tuple[int, int]]


@with_config(EXACT)
class _PairReply(TypedDict):
    scores: list[Annotated[tuple[list[Probability], bool], _FROM_LIST]]
    identity: str


@with_config(EXACT)
class _Fit(TypedDict):
    comparer: str | None
    texts: list[ContextAndText]


_INFOS: dict[str, TypeAdapter[Any]] = {
    "generation": TypeAdapter(GenerationInfo),
    "similarity": TypeAdapter(SimilarityInfo),
}
_GENERATE, _FIRST_TOKEN = TypeAdapter(_Generate), TypeAdapter(_FirstToken)
_COMPARE, _FIT = TypeAdapter(_Compare), TypeAdapter(_Fit)
_FIRST_TOKEN_REPLY, _PAIR_REPLY = TypeAdapter(_FirstTokenReply), TypeAdapter(_PairReply)
_CONTEXTS = TypeAdapter(list[str], config=EXACT)
_TOKEN_ENDS = TypeAdapter(list[list[int]], config=EXACT)
_Top = Annotated[tuple[str, Logprob], _FROM_LIST]
_Tops = Annotated[tuple[_Top, ...], _FROM_LIST]
_TOKEN: TypeAdapter[Any] = TypeAdapter(
    Annotated[tuple[str, Logprob | None, Entropy | None, str | None, _Tops], _FROM_LIST],
    config=EXACT,
)


def encode_info(kind: str, info: GenerationInfo | SimilarityInfo) -> bytes:
    return _INFOS[kind].dump_json(info)


def decode_info(kind: str, body: bytes) -> Any:
    with garbled(f"it is no {kind} worker"):
        if (version := orjson.loads(body)["wire"]) != VERSION:
            raise Garbled(f"it speaks version {version!r:.20} of the wire, not {VERSION}")
        return _INFOS[kind].validate_json(body)


def encode_request(request: GenerationRequest, **further: Any) -> bytes:
    """A body about a request; without the deadline, of which a header tells what is left."""
    # Not orjson, which knows no integer beyond 64 bits; a template may be given one.
    return json.dumps({"request": request_to_json(request), **further}).encode()


def decode_generate(body: bytes, timeout_s: float | None) -> tuple[GenerationRequest, bool]:
    with garbled("no request"):
        found = _GENERATE.validate_json(body)
        return _request(found["request"], timeout_s), found["streams"]


def decode_first_token(
    body: bytes, timeout_s: float | None
) -> tuple[GenerationRequest, list[list[str]]]:
    with garbled("no request"):
        found = _FIRST_TOKEN.validate_json(body)
        return _request(found["request"], timeout_s), found["groups"]


def encode_result(value: Any) -> bytes:
    """The line that ends a call, as its decoder below takes the value."""
    return dumps({"result": value})


def decode_generation(request: GenerationRequest, value: Any) -> Generation:
    """A generation, if it answers the request."""
    with garbled("no generation"):
        generation = generation_from_json(value)
        _check_answers(request, generation)
        return generation


def decode_first_token_reply(num_groups: int, value: Any) -> FirstTokenReply:
    """Log-probs of first tokens, if they are of that many groups."""
    with garbled("no log-probs of first tokens"):
        found = _FIRST_TOKEN_REPLY.validate_python(value)
        _expect(len(found["logprobs"]) == num_groups)
        return FirstTokenReply(tuple(found["logprobs"]), found["identity"])


def _check_answers(request: GenerationRequest, generation: Generation) -> None:
    """Refuse a generation that has less than was asked for, or more."""
    samples, wanted = generation.samples, request.statistics
    generated = samples
    if request.answer is None:
        generated = (generation.answer, *samples)
    most = most_tokens(request)
    for sequence in generated:
        num_tokens = sequence.num_tokens
        if sequence.reasoning is not None:
            num_tokens += sequence.reasoning.num_tokens
        _expect(num_tokens <= most)
        _expect(len(sequence.text) <= most * _MAX_TOKEN_CHARACTERS)
    _expect(num_taken(request, generation) == len(samples))
    for names, sequences in (
        (ANSWER_STATISTICS, (generation.answer,)),
        (SAMPLE_STATISTICS - {"sample_texts"}, samples),
    ):
        for name in names:
            field = STATISTICS[name].field or ""
            for sequence in sequences:
                _expect((getattr(sequence, field) is not None) == (name in wanted))
    for index, sequence in enumerate((generation.answer, *samples)):
        num_tops = request.num_tops_of(index)
        _expect((sequence.token_tops is not None) == (num_tops > 0))
        for tops in sequence.token_tops or ():
            _expect(len(tops) <= num_tops)
    _expect(generation.probe_readings.keys() <= wanted & PROBE_STATISTICS)
    _expect(not generation.sentence_readings or SENTENCES_READ in wanted)
    hidden = () if generation.answer_hidden_mean is None else generation.answer_hidden_mean
    _expect(len(request.hidden_layers) == len(hidden))
    _expect(request.by_sentence or not generation.sentence_hidden_means)
    _expect((request.prompt_layer > 0) == (generation.prompt_state is not None))


def most_tokens(request: GenerationRequest) -> int:
    """The most tokens of each generated sequence, the one that ends it included."""
    return (request.sampling.max_new_tokens or DEFAULT_NEW_TOKENS) + 1


def encode_compare(comparer: str | None, pairs: Sequence[Pair]) -> bytes:
    """The body of `/v1/compare`, each text once; without a comparer for the NLI model."""
    positions: dict[str, int] = {}
    rows = []
    for pair in pairs:
        rows.append([positions.setdefault(text, len(positions)) for text in pair])
    return dumps({"comparer": comparer, "texts": list(positions), "pairs": rows})


def decode_compare(body: bytes) -> tuple[str | None, list[Pair]]:
    with garbled("no pairs"):
        found = _COMPARE.validate_json(body)
        texts = found["texts"]
        return found["comparer"], [(texts[a], texts[b]) for a, b in found["pairs"]]


def decode_pair_reply(num_labels: int, pairs: Sequence[Pair], value: Any) -> PairReply:
    """Scores in the order of the pairs, if they are of these."""
    with garbled("no scores of these pairs"):
        found = _PAIR_REPLY.validate_python(value)
        scores: dict[Pair, PairScore] = {}
        for pair, (values, is_cut) in zip(pairs, found["scores"], strict=True):
            _expect(len(values) == num_labels)
            scores[pair] = tuple(values), is_cut
        return PairReply(scores, found["identity"])


def decode_fit(body: bytes) -> tuple[str | None, list[ContextAndText]]:
    with garbled("no texts"):
        found = _FIT.validate_json(body)
        return found["comparer"], found["texts"]


def decode_contexts(texts: Sequence[ContextAndText], value: Any) -> list[str]:
    """Contexts, if they are a right part of each that was asked."""
    with garbled("no contexts"):
        contexts = _CONTEXTS.validate_python(value)
        for context, (whole, _) in zip(contexts, texts, strict=True):
            _expect(whole.endswith(context))
        return contexts


def decode_texts(body: bytes) -> list[str]:
    with garbled("no texts"):
        return _CONTEXTS.validate_json(body)


def decode_token_ends(texts: Sequence[str], value: Any) -> list[list[int]]:
    """Ends of tokens, if they can be of these texts."""
    with garbled("no ends of tokens"):
        found = _TOKEN_ENDS.validate_python(value)
        for text, ends in zip(texts, found, strict=True):
            _expect(ends == sorted(ends) and min(ends, default=0) >= 0)
            _expect(max(ends, default=0) <= len(text))
        return found


def encode_token(token: Token) -> bytes:
    """One further token of what is streamed."""
    told = token.text, token.logprob, token.entropy, token.reasoning, token.tops
    return dumps({"token": told})


def decode_token(value: Any) -> Token:
    with garbled("no token"):
        return Token(*_TOKEN.validate_python(value))


def encode_error(error: errors.CocoaError) -> bytes:
    return dumps(error_to_json(error))


def error_to_json(error: errors.CocoaError) -> dict[str, Any]:
    names = ("code", "message", "field", "retry_after_s")
    return {"error": {name: getattr(error, name) for name in names}}


def digest_of_call(path: str, body: bytes) -> bytes:
    """What each line of an answer begins with: nobody's answer is taken for another's."""
    return hashlib.sha256(path.encode() + b"\n" + body).hexdigest()[:32].encode()


def decode_line(line: bytes, digest: bytes) -> tuple[str, Any]:
    """What a line brings, "token", "result" or "error", and its content, not yet decoded."""
    with garbled("no line of ours, or of another call"):
        _expect(line.startswith(digest))
        line = line.removeprefix(digest)
        [(kind, content)] = orjson.loads(line).items()
        _expect(kind in ("token", "result", "error"))
        return kind, content


def parts(asked: Sequence[Texts]) -> Iterator[Sequence[Texts]]:
    """Pairs or texts in calls that are not too large.

    >>> [len(part) for part in parts([("a", "b")] * (MAX_PAIRS + 1))]
    [4096, 1]
    """
    start, num_characters = 0, 0
    for i, texts in enumerate(asked):
        num_added = len(texts) if isinstance(texts, str) else sum(map(len, texts))
        num_characters += num_added
        if i > start and (i - start == MAX_PAIRS or num_characters > MAX_CHARACTERS):
            yield asked[start:i]
            start, num_characters = i, num_added
    if start < len(asked):
        yield asked[start:]


@contextmanager
def garbled(what: str) -> Iterator[None]:
    """Raise `Garbled(what)` for any decoding error in the block."""
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError):
        raise Garbled(what) from None


def _expect(is_so: bool) -> None:
    if not is_so:
        raise ValueError


def _request(told: dict[str, Any], timeout_s: float | None) -> GenerationRequest:
    return request_from_json(told | {"timeout_s": timeout_s})


def dumps(value: Any) -> bytes:
    """A value as one line."""
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE)
