"""Makes the pictures of the page anew: `python -m tests.browser.pictures` writes docs/images."""

import asyncio
from pathlib import Path

from PIL import Image

from tests.browser.chromium import chromium
from tests.browser.pages import DESK, embedded_service, visiting

IMAGES = Path(__file__).parents[2] / "docs" / "images"
MAX_BYTES = 150_000


async def main():
    """A full answer in light colours, and light against full in dark ones."""
    async with chromium() as browser, embedded_service() as url:
        async with visiting(browser, url, size=DESK) as visit:
            await visit.is_ready()
            await visit.ask("Which country is Pirot in?", seed=7)
            await _back_to_the_top(visit)
            await visit(".token:has-text('India')").hover()
            await _keep(visit, "page.png")
        async with visiting(browser, url, size=DESK, colours="dark") as visit:
            await visit.is_ready()
            await visit.ask("What is 12 * 14?", "both")  # the first request warms up
            await visit.ask("What is 12 * 15?", "both", seed=7)
            await _back_to_the_top(visit)
            await _keep(visit, "page-both.png")


async def _back_to_the_top(visit):
    await visit("#options").evaluate("folded => { folded.open = false; }")
    await visit("#form").evaluate("form => { form.scrollTop = 0; }")
    await visit.page.evaluate("scrollTo({ top: 0, behavior: 'instant' })")


async def _keep(visit, name):
    path = IMAGES / name
    await visit.page.screenshot(path=path)
    with Image.open(path) as picture:
        few_colours = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    few_colours.save(path, optimize=True)
    size = path.stat().st_size
    print(f"{name}: {size} bytes")
    if size > MAX_BYTES:
        raise SystemExit(f"{name} has more than {MAX_BYTES} bytes")


if __name__ == "__main__":
    asyncio.run(main())
