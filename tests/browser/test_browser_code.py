"""Code that the page at `/` shows and copies, and the interactive documentation."""

import asyncio
import subprocess
import sys

import pytest
from playwright.async_api import expect

from tests.browser.pages import KNOWN, answered, visiting
from tests.conftest import GENERATE

pytestmark = pytest.mark.anyio


async def test_the_code_of_a_request_runs_as_it_stands(browser, url, tmp_path):
    prompt = 'Say "it\'s" — in German\nor \\ not: $HOME `id`'
    async with visiting(browser, url) as visit:
        await visit.is_ready()
        await visit.ask(prompt, seed=7, max_new_tokens=8)
        await visit(".code summary").click()
        code = {}
        for tab in await visit("[role=tab]").all():
            await tab.click()
            code[await tab.inner_text()] = await visit(".code pre").inner_text()
        api = await answered(url, prompt, max_new_tokens=8, target_error=None)

        curled = await asyncio.to_thread(run, ["bash", "-c", code["curl"]])
        assert f'"uncertainty":{api["uncertainty"]}' in curled
        script = tmp_path / "request.py"
        script.write_text(code["Python"], encoding="utf-8")
        assert str(api["uncertainty"]) in await asyncio.to_thread(run, [sys.executable, script])
        async with visit.page.expect_console_message() as said:
            await visit.page.evaluate(f"async () => {{ {code['JavaScript']} }}")
        assert str(api["uncertainty"]) in (await said.value).text


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_code_is_copied(browser, url):
    permissions = ["clipboard-read", "clipboard-write"]
    async with visiting(browser, url, permissions=permissions) as visit:
        await visit.is_ready()
        await visit.ask(KNOWN)
        await visit(".code summary").click()
        await visit(".code button:has-text('Copy')").click()
        await expect(visit(".code [role=status]")).to_have_text("Copied.")
        copied = await visit.page.evaluate("navigator.clipboard.readText()")
        assert copied.startswith(f"curl -s '{url}{GENERATE}'")


async def test_the_interactive_documentation_works_without_any_other_host(browser, url):
    async with visiting(browser, f"{url}/docs") as visit:
        await expect(visit(".opblock").first).to_be_visible()
        assert all(one.startswith((url, "data:")) for one in visit.urls)
        assert visit.complaints == []
