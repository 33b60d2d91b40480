"""OpenAI's Responses API."""

from app.plugin import Gateway, Plugin


def _install(gateway: Gateway) -> None:
    from app.plugins.responses.requests import ResponseRequest
    from app.plugins.responses.routes import router

    gateway.add_routes(router, [ResponseRequest])


PLUGIN = Plugin("responses", _install)
