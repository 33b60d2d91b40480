"""A plugin of a route and a header, which say what a setting holds."""

from fastapi import APIRouter, Request
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.plugin import Gateway, Plugin

router = APIRouter()


@router.get("/greeting")
async def greeting(request: Request) -> dict[str, str]:
    """Greet."""
    return {"greeting": request.app.state.settings.greeting}


class Greeting:
    """Puts a greeting into the headers of each response."""

    def __init__(self, app: ASGIApp, greeting: str) -> None:
        self.app = app
        self.greeting = greeting

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def greeted(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["X-Greeting"] = self.greeting
            await send(message)

        await self.app(scope, receive, greeted)


def install(gateway: Gateway) -> None:
    gateway.add_routes(router)
    gateway.add_middleware(Middleware(Greeting, greeting=gateway.settings.greeting))


PLUGIN = Plugin("greeting", install, lambda: {"greeting": (str, "hello")})
