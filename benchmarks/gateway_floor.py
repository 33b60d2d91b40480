"""The least that a gateway must do for a request: one call of the server, and reading its choices.

python benchmarks/gateway_floor.py 8498 http://127.0.0.1:8499
"""

import sys
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import orjson
import uvicorn
from service import PATH
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

SAMPLING = {"n": 11, "temperature": 1.0, "logprobs": True, "top_logprobs": 1, "max_tokens": 256}


def floor(server: str) -> Starlette:
    """An application with the native endpoint's path."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> Any:
        async with aiohttp.ClientSession() as session:
            app.state.session = session
            yield

    async def answer(request: Request) -> Response:
        prompt = orjson.loads(await request.body())["prompt"]
        asked = {"model": "fixed", "messages": [{"role": "user", "content": prompt}], **SAMPLING}
        session: aiohttp.ClientSession = request.app.state.session
        url = f"{server}/v1/chat/completions"
        async with session.post(url, data=orjson.dumps(asked)) as response:
            choices = orjson.loads(await response.read())["choices"]
        texts = [choice["message"]["content"] for choice in choices]
        sums = []
        for choice in choices:
            sums.append(sum(token["logprob"] for token in choice["logprobs"]["content"]))
        body = orjson.dumps({"answer": texts[0], "samples": texts[1:], "logprobs": sums})
        return Response(body, media_type="application/json")

    return Starlette(routes=[Route(PATH, answer, methods=["POST"])], lifespan=lifespan)


if __name__ == "__main__":
    uvicorn.run(floor(sys.argv[2]), port=int(sys.argv[1]), log_level="warning")
