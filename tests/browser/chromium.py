"""A real browser without a window."""

from contextlib import asynccontextmanager

from playwright.async_api import async_playwright

from tests.binaries import binary

# Containers have no sandbox of Chromium's kind; the others keep it from asking any host.
_OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
_OPTIONS += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]


@asynccontextmanager
async def chromium():
    """The installed Chromium; the test is skipped, or fails, where there is none."""
    path = binary("chromium")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=_OPTIONS)
        try:
            yield browser
        finally:
            await browser.close()
