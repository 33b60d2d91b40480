"""Routes of the page: static files, and a policy that lets nothing else in."""

from pathlib import Path

from fastapi import APIRouter, Request, Response
from starlette.staticfiles import StaticFiles

_FOLDER = Path(__file__).with_name("files")
_INDEX = "index.html"
_API_LINK = 'href="docs"'
# No inline code, no file of another origin, no frame around the page.
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",  # revalidated each time, by its ETag
}

router = APIRouter(include_in_schema=False)
_files = StaticFiles(directory=_FOLDER, check_dir=False)


@router.get("/")
async def page(request: Request) -> Response:
    """The page; where operation has a second port, the page's link to the API's schema names it."""
    ops_port = request.app.state.settings.ops_port
    if ops_port is None:
        return await _file(_INDEX, request)
    text = (_FOLDER / _INDEX).read_text(encoding="utf-8")
    text = text.replace(_API_LINK, f'{_API_LINK} data-port="{ops_port}"')
    return Response(text, media_type="text/html", headers=_HEADERS)


@router.get("/page/{name}")
async def page_file(name: str, request: Request) -> Response:
    """A file of the page; 404 for any other name."""
    return await _file(name, request)


async def _file(name: str, request: Request) -> Response:
    response = await _files.get_response(name, request.scope)
    response.headers.update(_HEADERS)
    return response
