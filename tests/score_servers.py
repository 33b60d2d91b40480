"""Servers that score pairs as vLLM's `/score` and text-embeddings-inference's `/predict` do.

Their model is a word overlap that a test can change, and that cuts as they do. One more makes
vectors as `/v1/embeddings` of many servers does.
"""

import asyncio
import zlib
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.worker_servers import listening


@dataclass
class ScoreTraits:
    """What a server is, and what a test sees of it; may change while it runs.

    Attributes:
        weights: other ones are another model.
        kind: of the model, as text-embeddings-inference says it.
        length: words of a pair, special ones included, beyond which it is cut.
        replies: come instead of the next scores.
    """

    weights: float = 0.0
    length: int = 32
    max_call_pairs: int = 4
    kind: str = "classifier"
    labels: int = 1
    max_call_texts: int = 32
    tells_index: bool = True
    num_refused: int = 0
    dimension: int = 62
    calls: list = field(default_factory=list)
    replies: list = field(default_factory=list)
    url: str = ""


def tokens(text):
    return ["<s>", *text.split(), "</s>"]


def overlap(a, b, traits):
    room = (traits.length - 4) // 2
    one, other = set(a.split()[:room]), set(b.split()[:room])
    shared = len(one & other) / max(1, len(one | other))
    return min(1.0, 0.1 + 0.7 * shared + 0.001 * len(a) + traits.weights)


def vllm_app(traits):
    async def models(request):
        entry = {"id": "ce", "root": "/models/ce", "max_model_len": traits.length}
        return JSONResponse({"data": [entry]})

    async def score(request):
        body = await request.json()
        pairs = list(zip(body["text_1"], body["text_2"], strict=True))
        assert body["truncate_prompt_tokens"] == traits.length
        traits.calls.append(pairs)
        if traits.replies:
            return _given(traits)
        data = [{"index": i, "score": overlap(a, b, traits)} for i, (a, b) in enumerate(pairs)]
        return JSONResponse({"data": data[::-1]})

    async def tokenize(request):
        found = tokens((await request.json())["prompt"])
        return JSONResponse({"count": len(found), "max_model_len": traits.length})

    return Starlette(
        routes=[
            Route("/v1/models", models),
            Route("/score", score, methods=["POST"]),
            Route("/tokenize", tokenize, methods=["POST"]),
        ]
    )


def tei_app(traits):
    async def info(request):
        return JSONResponse(
            {
                "model_id": "ce",
                "model_sha": "5f0f",
                "model_dtype": "float32",
                "max_input_length": traits.length,
                "max_client_batch_size": traits.max_call_pairs,
                "version": "1.9.3",
                "model_type": {traits.kind: {}},
            }
        )

    async def predict(request):
        body = await request.json()
        pairs = [tuple(pair) for pair in body["inputs"]]
        assert body["truncate"] is True
        if len(pairs) > traits.max_call_pairs:
            return JSONResponse({"error": "too many", "error_type": "Validation"}, 413)
        traits.calls.append(pairs)
        if traits.replies:
            return _given(traits)
        rows = []
        for a, b in pairs:
            rows.append([{"score": overlap(a, b, traits), "label": "0"}] * traits.labels)
        return JSONResponse(rows)

    async def tokenize(request):
        found = [
            {"id": i, "text": text}
            for i, text in enumerate(tokens((await request.json())["inputs"]))
        ]
        return JSONResponse([found])

    return Starlette(
        routes=[
            Route("/info", info),
            Route("/predict", predict, methods=["POST"]),
            Route("/tokenize", tokenize, methods=["POST"]),
        ]
    )


def vector(text, traits):
    """Counts of the words of a text, beside what all texts have in common."""
    counts = [0.0] * 61
    for word in text.lower().split():
        counts[zlib.crc32(word.encode()) % len(counts)] += 1.0
    return [1.0 + traits.weights, *counts]


def embeddings_app(traits):
    """Strict: it takes model and input alone, no empty text and no more texts than it says."""

    async def models(request):
        return JSONResponse({"data": [{"id": "encoder"}, {"id": "other"}]})

    async def embeddings(request):
        body = await request.json()
        texts = body["input"]
        is_sound = body.keys() == {"model", "input"} and body["model"] == "encoder"
        if not is_sound or not all(texts) or len(texts) > traits.max_call_texts:
            traits.num_refused += 1
            return JSONResponse({"error": {"message": "unknown argument"}}, 400)
        traits.calls.append(texts)
        if traits.replies:
            return _given(traits)
        rows = []
        for i, text in enumerate(texts):
            found = vector(text, traits)[: traits.dimension]
            rows.append({"object": "embedding", "embedding": found})
            if traits.tells_index:
                rows[-1]["index"] = i
        data = rows[::-1] if traits.tells_index else rows
        return JSONResponse({"object": "list", "model": "encoder", "data": data})

    return Starlette(
        routes=[Route("/v1/models", models), Route("/v1/embeddings", embeddings, methods=["POST"])]
    )


def _given(traits):
    reply = traits.replies.pop(0)
    return reply if isinstance(reply, Response) else JSONResponse(reply)


APPS = {"vllm": vllm_app, "tei": tei_app}


@asynccontextmanager
async def score_server(api, port=0, **traits):
    """What the server is, while it runs."""
    state = ScoreTraits(**traits)
    async with listening((APPS | {"embeddings": embeddings_app})[api](state), port=port) as found:
        state.url = f"http://127.0.0.1:{found}"
        yield state


async def reason_logged(similarity_scorer, caplog, reason):
    """Connect a similarity scorer whose servers are refused, until the log has the reason."""
    connecting = asyncio.create_task(similarity_scorer.upstream.connect())
    try:
        async with asyncio.timeout(20.0):
            while reason not in caplog.text:  # noqa: ASYNC110 - the log tells nobody
                await asyncio.sleep(0.05)
    finally:
        connecting.cancel()
        await asyncio.gather(connecting, return_exceptions=True)
        await similarity_scorer.close()
