"""An OpenAI-compatible server over a socket, whose replies a test decides."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.conftest import until


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
    config = uvicorn.Config(
        app, port=0, log_config=None, lifespan="off", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    await until(lambda: server.started)
    port = server.servers[0].sockets[0].getsockname()[1]
    state.url = f"http://127.0.0.1:{port}"
    try:
        yield state
    finally:
        server.should_exit = True
        await task
