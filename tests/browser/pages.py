"""The page at `/` as a person uses it."""

import json
import re
from contextlib import asynccontextmanager

import httpx
from playwright.async_api import expect

from app.main import create_app
from app.settings import Settings
from tests.conftest import GENERATE
from tests.worker_servers import listening

WITHIN_MS = 60_000
expect.set_options(timeout=WITHIN_MS)
DESK, PHONE = (1280, 900), (375, 800)
MADE_UP = "Which country is Pirot in?"
KNOWN = "What is the capital of France?"


@asynccontextmanager
async def embedded_service(settings=None):
    """URL of the service over the embedded models."""
    app = create_app(settings or Settings(), on_death=lambda: None)
    async with app.router.lifespan_context(app):
        await app.state.service.supervisor.ready.wait()
        async with listening(app) as port:
            yield f"http://127.0.0.1:{port}"


async def answered(url, prompt, **body):
    """What the service says to the request that the page makes."""
    body = {"prompt": prompt, "seed": 7, "target_error": 0.1} | body
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        response = await client.post(GENERATE, json=body)
    assert response.status_code == 200, response.text
    return response.json()


async def taking_chats(url, **body):
    """A route in place of a model that takes chats, which the embedded one does not."""
    served = await answered(url, KNOWN, return_tokens=True, **body)

    async def answer(route):
        if route.request.url.endswith("/version"):
            told = await (await route.fetch()).json()
            await route.fulfill(json=told | {"model_takes_turns": True})
            return
        event = f"event: result\ndata: {json.dumps(served)}\n\n"
        await route.fulfill(content_type="text/event-stream", body=event)

    return re.compile(f"{GENERATE}$|/version$"), answer


class Visit:
    """One visit of the page.

    Attributes:
        page: Playwright's.
        urls: whatever was asked for.
        complaints: of the browser: errors of scripts and of its security policy.
    """

    def __init__(self, page):
        self.page = page
        self.urls, self.complaints = [], []
        page.on("request", lambda request: self.urls.append(request.url))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", self._hear)

    def _hear(self, message):
        # A refused request is said there, too; the page tells of those itself.
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            self.complaints.append(message.text)

    def __call__(self, selector):
        """What a selector of CSS finds."""
        return self.page.locator(selector)

    async def is_ready(self):
        await expect(self("#state")).to_have_attribute("data-state", "ready")

    async def choose(self, mode="full", **fields):
        """Fill in the form, folded options too."""
        await self.page.check(f"input[name=mode][value={mode}]")
        await self("details#options").evaluate("folded => { folded.open = true; }")
        for name, value in fields.items():
            await self.page.fill(f"#{name}", str(value))

    async def ask(self, prompt, mode="full", **fields):
        """Ask, and wait until it is over."""
        await self.choose(mode, prompt=prompt, **fields)
        await self.page.click("#ask")
        await self.is_over()

    async def is_over(self):
        await expect(self("#results")).to_have_attribute("aria-busy", "false")

    async def is_refused(self, box):
        """The message is in view and has the focus; its button leads to the box at fault."""
        await expect(self("#error-message")).to_be_focused()
        await expect(self("#error-message")).to_be_in_viewport(ratio=1)
        await expect(self(box)).to_have_attribute("aria-invalid", "true")
        await self.page.keyboard.press("Tab")
        await self.page.keyboard.press("Enter")
        await expect(self(box)).to_be_focused()

    async def texts(self, selector):
        return await self(selector).all_inner_texts()

    async def unfold(self):
        """Open whatever is folded."""
        await self("details").evaluate_all("all => all.forEach(one => { one.open = true; })")


@asynccontextmanager
async def visiting(browser, url, *, size=DESK, colours="light", route=None, **options):
    """A visit in a browser that knows nothing of others.

    Args:
        browser: Chromium.
        url: of the service.
        size: of the window, in pixels.
        colours: that the system prefers.
        route: what stands between page and service: (pattern of URLs, handler).
        options: of the context.
    """
    width, height = size
    context = await browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=colours, **options
    )
    try:
        visit = Visit(await context.new_page())
        if route is not None:
            await visit.page.route(*route)
        await visit.page.goto(url)
        yield visit
    finally:
        await context.close()
