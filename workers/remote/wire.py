"""The protocol between gateways and workers over HTTP; pure.

A call is a POST whose answer is a stream of lines. Each begins with the digest of the call, before
a word and JSON: `token:…` as a sequence grows, at the end `result:…` or `error:…`. A blank line
says that the work goes on. Everything that is read is checked, so that half an answer is none: each
`decode_…` gives what the other end sent, or raises `Garbled`.

    GET  /v1/info                  the wire's version, what the worker is
    POST /v1/generate              request, streams → token …, generation
    POST /v1/first-token-logprobs  request, groups → log-probs, identity
    POST /v1/tokenize              text or token ids, whether with special ones → both
    POST /v1/compare               scorer, texts, pairs of their positions → scores, identity
    POST /v1/fit-contexts          scorer, pairs of texts → contexts
    POST /v1/token-ends            texts → the NLI model's tokens, by the character behind each
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, TypeVar

import orjson
from pydantic import TypeAdapter

from models import errors
from models.codec import reader, to_json
from models.ranges import Exact, Probability
from models.records import DEFAULT_NEW_TOKENS, Generation, GenerationRequest, Pair, Token
from models.statistics import SENTENCES_READ, STATISTICS, supplied_by
from workers.protocol import FirstTokenReply, GeneratorInfo, PairReply, PairScore, SimilarityInfo

VERSION = 9
# Headers of every call.
WIRE_HEADER = "X-Cocoa-Wire"
TIMEOUT_HEADER = "X-Timeout-S"

# Blank lines come more often than whoever waits gives up.
HEARTBEAT_S = 5.0
HEARTBEAT = b"\n"

# Larger calls are split: what a worker holds at once of one of them.
MAX_PAIRS = 4096
MAX_CHARACTERS = 4_000_000
# Bound of the tokens of any text, whatever a request names.
_MAX_TOKENS = 1 << 20
# Bound of the text of a token, on the average.
_MAX_TOKEN_CHARACTERS = 1024

Texts = TypeVar("Texts", str, tuple[str, str])


class Garbled(Exception):
    """A reply that is no answer to the call; the text quotes nothing of it."""


@contextmanager
def garbled(what: str) -> Iterator[None]:
    """Raise `Garbled(what)` for any decoding error in the block, or in the function."""
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError):
        raise Garbled(what) from None


def _expect(is_so: bool) -> None:
    if not is_so:
        raise ValueError


@dataclass(frozen=True, slots=True)
class GenerationInfo:
    """The reply of `/v1/info` of a generation worker."""

    generator: GeneratorInfo
    wire: int = VERSION


@dataclass(frozen=True, slots=True)
class SimilarityWorkerInfo:
    """The reply of `/v1/info` of a similarity worker: its models, the NLI model apart."""

    similarity_scorers: Mapping[str, SimilarityInfo]
    nli: SimilarityInfo | None = None
    wire: int = VERSION


@dataclass(frozen=True, slots=True)
class _Generate(Exact):
    request: GenerationRequest
    streams: bool


@dataclass(frozen=True, slots=True)
class _FirstToken(Exact):
    request: GenerationRequest
    groups: list[list[str]]


@dataclass(frozen=True, slots=True)
class _Compare(Exact):
    similarity_scorer: str | None
    texts: list[str]
    pairs: list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class _PairReply(Exact):
    scores: list[tuple[tuple[Probability, ...], bool]]
    identity: str


@dataclass(frozen=True, slots=True)
class _Fit(Exact):
    similarity_scorer: str | None
    texts: list[Pair]


_INFOS: dict[str, Callable[[bytes], Any]] = {
    "generation": reader(GenerationInfo),
    "similarity": reader(SimilarityWorkerInfo),
}
_compare, _texts, _token_ends = reader(_Compare), reader(list[str]), reader(list[list[int]])
_first_token_reply, _pair_reply = reader(FirstTokenReply), reader(_PairReply)
_generation, _request = reader(Generation), TypeAdapter(GenerationRequest)

decode_generate = garbled("no request")(reader(_Generate))
decode_first_token = garbled("no request")(reader(_FirstToken))
decode_tokenize = garbled("no prompt")(reader(tuple[str | tuple[int, ...], bool]))
decode_tokenized = garbled("no tokens")(reader(tuple[str, tuple[int, ...]]))
decode_fit = garbled("no texts")(reader(_Fit))
decode_texts = garbled("no texts")(_texts)
decode_token = garbled("no token")(reader(Token))


def decode_info(kind: str, body: bytes) -> Any:
    with garbled(f"it is no {kind} worker"):
        if (version := orjson.loads(body)["wire"]) != VERSION:
            raise Garbled(f"it speaks version {version!r:.20} of the wire, not {VERSION}")
        return _INFOS[kind](body)


def encode_request(request: GenerationRequest, **further: Any) -> bytes:
    """A body about a request, without the deadline: a header has what is left of it."""
    fields = _request.dump_python(replace(request, timeout_s=None, patience_s=None), mode="json")
    # Not orjson, which knows no integer beyond 64 bits; a template may be given one.
    return b'{"request": %b, %b' % (json.dumps(fields).encode(), to_json(further)[1:])


@garbled("no generation")
def decode_generation(request: GenerationRequest, content: bytes) -> Generation:
    """A generation, if it answers the request."""
    generation = _generation(content)
    _check_answers(request, generation)
    return generation


@garbled("no log-probs of first tokens")
def decode_first_token_reply(num_groups: int, content: bytes) -> FirstTokenReply:
    """Log-probs of first tokens, if they are of that many groups."""
    reply = _first_token_reply(content)
    _expect(len(reply.logprobs) == num_groups)
    return reply


def _check_answers(request: GenerationRequest, generation: Generation) -> None:
    """Refuse a generation that has less than was requested, or more."""
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
    _expect(len(samples) == request.num_samples)
    for names, sequences in (
        (supplied_by("answer"), (generation.answer,)),
        (supplied_by("samples") - {"sample_texts"}, samples),
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
    _expect(len(generation.prompt) == request.echo * generation.prompt_tokens)
    _expect(None not in map(attrgetter("logprob"), generation.prompt[1:]))
    _expect(generation.probe_readings.keys() <= wanted & supplied_by("probe"))
    _expect(not generation.sentence_readings or SENTENCES_READ in wanted)
    hidden = () if generation.answer_hidden_mean is None else generation.answer_hidden_mean
    _expect(len(request.hidden_layers) == len(hidden))
    _expect(request.by_sentence or not generation.sentence_hidden_means)
    _expect((request.prompt_layer > 0) == (generation.prompt_state is not None))


def most_tokens(request: GenerationRequest) -> int:
    """The most tokens of each generated sequence, the one that ends it included."""
    return min(request.sampling.max_new_tokens or DEFAULT_NEW_TOKENS, _MAX_TOKENS) + 1


def encode_compare(similarity_scorer: str | None, pairs: Sequence[Pair]) -> bytes:
    """The body of `/v1/compare`, each text once; without a similarity scorer for the NLI model."""
    positions: dict[str, int] = {}
    rows = []
    for pair in pairs:
        rows.append([positions.setdefault(text, len(positions)) for text in pair])
    return to_json(
        {"similarity_scorer": similarity_scorer, "texts": list(positions), "pairs": rows}
    )


@garbled("no pairs")
def decode_compare(body: bytes) -> tuple[str | None, list[Pair]]:
    call = _compare(body)
    return call.similarity_scorer, [(call.texts[a], call.texts[b]) for a, b in call.pairs]


@garbled("no scores of these pairs")
def decode_pair_reply(num_labels: int, pairs: Sequence[Pair], content: bytes) -> PairReply:
    """Scores in the order of the pairs, if they are of these."""
    reply = _pair_reply(content)
    scores: dict[Pair, PairScore] = dict(zip(pairs, reply.scores, strict=True))
    _expect(all(len(values) == num_labels for values, _ in reply.scores))
    return PairReply(scores, reply.identity)


@garbled("no contexts")
def decode_contexts(texts: Sequence[Pair], content: bytes) -> list[str]:
    """Contexts, if they are a right part of each that was sent."""
    contexts = _texts(content)
    for context, (original, _) in zip(contexts, texts, strict=True):
        _expect(original.endswith(context))
    return contexts


@garbled("no ends of tokens")
def decode_token_ends(texts: Sequence[str], content: bytes) -> list[list[int]]:
    """Ends of tokens, if they can be of these texts."""
    all_ends = _token_ends(content)
    for text, ends in zip(texts, all_ends, strict=True):
        _expect(ends == sorted(ends) and min(ends, default=0) >= 0)
        _expect(max(ends, default=0) <= len(text))
    return all_ends


def error_to_json(error: errors.CocoaError) -> dict[str, Any]:
    return {name: getattr(error, name) for name in ("code", "message", "field", "retry_after_s")}


def digest_of_call(path: str, body: bytes) -> bytes:
    """The beginning of each line of a reply, so that none is taken for another call's."""
    return hashlib.sha256(path.encode() + b"\n" + body).hexdigest()[:32].encode()


def line_of(kind: str, content: Any) -> bytes:
    """A line of an answer, behind its digest: a "token", the "result" or an "error"."""
    return b"%b:%b\n" % (kind.encode(), to_json(content))


@garbled("no line of ours, or of another call")
def decode_line(line: bytes, digest: bytes) -> tuple[str, bytes]:
    """The kind of a line, as `line_of` has it, and its content, not yet decoded."""
    _expect(line.startswith(digest))
    kind, _, content = line.removeprefix(digest).partition(b":")
    _expect(kind in (b"token", b"result", b"error"))
    return kind.decode(), content


def parts(items: Sequence[Texts]) -> Iterator[Sequence[Texts]]:
    """Pairs or texts in calls that are not too large.

    >>> [len(part) for part in parts([("a", "b")] * (MAX_PAIRS + 1))]
    [4096, 1]
    """
    start, num_characters = 0, 0
    for i, item in enumerate(items):
        num_added = len(item) if isinstance(item, str) else sum(map(len, item))
        num_characters += num_added
        if i > start and (i - start == MAX_PAIRS or num_characters > MAX_CHARACTERS):
            yield items[start:i]
            start, num_characters = i, num_added
    if start < len(items):
        yield items[start:]
