"""The files of the page at `/`, without a browser."""

import re
from pathlib import Path

import pytest

import app.plugins.page
from tests.conftest import serving
from tests.made_keys import keys_in

pytestmark = pytest.mark.anyio

FOLDER = Path(app.plugins.page.__file__).parent / "files"
FILES = sorted(path.name for path in FOLDER.iterdir())


async def test_the_page_and_its_files_are_served_under_a_strict_policy(service):
    responses = [await service.client.get("/")]
    for name in FILES:
        responses.append(await service.client.get(f"/page/{name}"))
    for response in responses:
        assert response.status_code == 200
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["referrer-policy"] == "no-referrer"
    assert responses[0].headers["content-type"] == "text/html; charset=utf-8"


async def test_a_file_that_has_not_changed_is_not_sent_again(service):
    first = await service.client.get("/page/page.css")
    assert first.headers["cache-control"] == "no-cache"
    etag = {"If-None-Match": first.headers["etag"]}
    again = await service.client.get("/page/page.css", headers=etag)
    assert (again.status_code, again.content) == (304, b"")
    assert "content-security-policy" in again.headers


@pytest.mark.parametrize("name", ["nothing.js", "..%2froutes%2fpage.py", "%2e%2e", ".", "%00", ""])
async def test_nothing_else_is_served(service, name):
    response = await service.client.get(f"/page/{name}")
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "not_found"


def test_nothing_stands_inline_and_nothing_comes_from_elsewhere():
    html = (FOLDER / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"\sstyle=|\son\w+=|<style|<script>|javascript:", html)
    for name in FILES:
        text = (FOLDER / name).read_text(encoding="utf-8")
        hosts = set(re.findall(r"(?:https?:)?//[\w.-]+\.[\w.-]+[^\s\"')]*", text))
        assert hosts <= {"http://www.w3.org/2000/svg"}, name
        assert "innerHTML" not in text


async def test_the_page_needs_no_key_and_stays_at_the_first_port(tmp_path):
    access = {"keys": keys_in(tmp_path, one={}), "ops_port": 0}
    async with serving(access=access) as service:
        assert (await service.client.get("/")).status_code == 200
        for name in FILES:
            assert (await service.client.get(f"/page/{name}")).status_code == 200


async def test_the_page_is_no_operation_of_the_api(service):
    paths = (await service.client.get("/openapi.json")).json()["paths"]
    assert not {"/", "/page/{name}"} & paths.keys()
