"""The page at `/`."""

from app.plugin import Gateway, Plugin


def _install(gateway: Gateway) -> None:
    from app.plugins.page.routes import router

    gateway.add_routes(router, needs_key=False)  # it shows nothing without a key


PLUGIN = Plugin("page", _install)
