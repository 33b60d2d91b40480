"""Makes the pictures of the page anew: `python -m tests.browser.pictures` writes docs/images."""

import asyncio
from pathlib import Path

from PIL import Image

from app.settings import Settings
from tests.browser.chromium import chromium
from tests.browser.pages import DESK, embedded_service, visiting
from workers.config import GeneratorConfig

IMAGES = Path(__file__).parents[2] / "docs" / "images"
MAX_BYTES = 150_000


async def main():
    """A full answer in light colours, light against full in dark ones, and a long answer."""
    async with chromium() as browser:
        await _short_answers(browser)
        await _long_answer(browser)


async def _short_answers(browser):
    async with embedded_service() as url:
        async with visiting(browser, url, size=DESK) as visit:
            await visit.is_ready()
            await visit.ask("Which country is Pirot in?", seed=7)
            await _back_to_the_top(visit)
            await visit(".token:has-text('India')").hover()
            await _keep(visit, "page.png")
        async with visiting(browser, url, size=DESK, colours="dark") as visit:
            await visit.is_ready()
            await visit.ask("What is 64 - 27?", "both")  # the first request warms up
            await visit.ask("Which country is Pirot in?", "both", seed=7)
            await _back_to_the_top(visit)
            await _keep(visit, "page-both.png")


async def _long_answer(browser):
    settings = Settings(generation=GeneratorConfig(model="embedded-long"))
    async with embedded_service(settings) as url, visiting(browser, url, size=DESK) as visit:
        await visit.is_ready()
        await visit.unfold()
        await visit.page.select_option("#units", "sentences")
        await visit.page.select_option("#target_error", "0.2", force=True)
        await visit.ask("Tell me about Lima.", seed=1)
        await visit(".statement").last.hover()
        await visit(".part:has(.statements)").screenshot(path=IMAGES / "unit-sentences.png")
        _shrink(IMAGES / "unit-sentences.png")


async def _back_to_the_top(visit):
    await visit("#options").evaluate("folded => { folded.open = false; }")
    await visit("#form").evaluate("form => { form.scrollTop = 0; }")
    await visit.page.evaluate("scrollTo({ top: 0, behavior: 'instant' })")


async def _keep(visit, name):
    await visit.page.screenshot(path=IMAGES / name)
    _shrink(IMAGES / name)


def _shrink(path):
    with Image.open(path) as picture:
        few_colours = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    few_colours.save(path, optimize=True)
    size = path.stat().st_size
    print(f"{path.name}: {size} bytes")
    if size > MAX_BYTES:
        raise SystemExit(f"{path.name} has more than {MAX_BYTES} bytes")


if __name__ == "__main__":
    asyncio.run(main())
