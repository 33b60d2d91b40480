"""An OpenAI-compatible server over a socket, whose replies a test decides."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.worker_servers import listening


@dataclass
class SecondServer:
    """What a test says and sees of it."""

    url: str = ""
    reply: Response | None = None
    delay_s: float = 0.0
    bodies: list = field(default_factory=list)
    keys: list = field(default_factory=list)


def completion(text):
    return JSONResponse({"choices": [{"message": {"role": "assistant", "content": text}}]})


@asynccontextmanager
async def second_server(answer="Serbia"):
    """The server, while the block runs; it answers every chat with `answer`."""
    state = SecondServer(reply=completion(answer))

    async def chat(request: Request):
        state.bodies.append(await request.json())
        state.keys.append(request.headers.get("authorization"))
        await asyncio.sleep(state.delay_s)
        return state.reply

    app = Starlette(routes=[Route("/v1/chat/completions", chat, methods=["POST"])])
    async with listening(app) as port:
        state.url = f"http://127.0.0.1:{port}"
        yield state
