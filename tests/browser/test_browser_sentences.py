"""A long answer on the page at `/`: its sentences, who denies them, and which of them may pass."""

import json
import os

import pytest
from playwright.async_api import expect

from tests.browser.pages import DESK, PHONE, visiting

pytestmark = pytest.mark.anyio

# The first character takes two units of UTF-16, which shifts whatever counts those.
TEXT = "# 😀 Lima\n\nLima is in Peru. It has 9 people.\n- It is <b>old</b>.\n"
SAID = ["Lima is in Peru.", "It has 9 people.", "It is <b>old</b>."]
SAMPLES = ["Lima is in Peru. It has ten million people.", "It lies in <i>Chile</i>."]
SAID_INSTEAD = [
    {"value": "It has ten million people.", "share": 0.5},
    {"value": SAMPLES[1], "share": 0.5},
]
SURE = [(0.9, 0.25), (0.25, 3.0), (0.5, 1.0)]


def unit_of(text, sure):
    confidence, uncertainty = sure
    start = TEXT.index(text)
    deniers = [0, 1] if text == SAID[1] else []
    return {
        "kind": "sentence",
        "text": text,
        "span": [start, start + len(text)],
        "support": 0.5,
        "contradiction": 0.75,
        "contradicted_by": deniers,
        **({"alternatives": SAID_INSTEAD} if deniers else {}),
        "confidence": confidence,
        "uncertainty": uncertainty,
    }


UNITS = [{"kind": "answer"}, *map(unit_of, SAID, SURE)]


async def prose(route):
    """The service's answer, with this text, these sentences and these samples."""
    sent = json.loads(route.request.post_data)
    sent.pop("target_error", None)
    response = await route.fetch(post_data=json.dumps(sent))
    samples = [{"text": text, "logprob": None, "similarity": 0.5} for text in SAMPLES]
    told = {"text": TEXT, "units": UNITS, "samples": samples, "groups": []}
    await route.fulfill(response=response, json={**await response.json(), **told})


async def calibrated(route):
    """What the service tells of itself, with thresholds for sentences."""
    response = await route.fetch()
    body = await response.json()
    thresholds = {0.05: None, 0.1: 0.5, 0.2: 2.0}
    told = []
    for target, uncertainty in thresholds.items():
        share = 0.0 if uncertainty is None else 0.5
        one = {"target_error": target, "uncertainty": uncertainty, "share_accepted": share}
        told.append({**one, "labels_missing": None})
    body["calibrator"] |= {"units": {"sentence": told}, "target_errors": list(thresholds)}
    await route.fulfill(response=response, json=body)


async def ask_of_sentences(visit):
    """The request that the page sends with sentences wanted."""
    await visit.page.route("**/version", calibrated)
    await visit.page.reload()
    await visit.is_ready()
    await visit.unfold()
    await visit.page.select_option("#units", "sentences")
    await visit.page.fill("#answer", TEXT)
    async with visit.page.expect_request("**/score") as sent:
        await visit.ask("Tell me about Lima.")
    return json.loads((await sent.value).post_data)


async def choose_target(visit, index):
    slider = visit("#target-step")
    await slider.evaluate(
        "(one, at) => { one.value = at; one.dispatchEvent(new Event('input', {bubbles: true})); }",
        index,
    )


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
async def test_the_answer_is_read_as_its_sentences_and_says_who_denies_them(browser, url, size):
    async with visiting(browser, url, size=size, route=("**/score", prose)) as visit:
        asked = await ask_of_sentences(visit)

        assert asked["units"] == "sentences"
        assert await visit(".statements").evaluate("one => one.textContent") == TEXT
        assert await visit(".statement").all_text_contents() == SAID
        shades = await visit(".statement").evaluate_all(
            "all => all.map(one => Number(one.style.getPropertyValue('--s')))"
        )
        assert shades == pytest.approx([0.1, 0.75, 0.5])

        detail = visit(".part:has(.statements) .detail")
        await visit(".statement").nth(1).click()
        await expect(detail).to_contain_text("right with 25 %")
        await expect(detail).to_contain_text("Denied by 2 of 2 samples (75 % on average)")
        assert await visit(".deniers li").all_text_contents() == [
            "It has ten million people. (50 %)",
            "It lies in <i>Chile</i>. (50 %)",
        ]
        await visit(".statement").nth(0).focus()
        await expect(detail).to_contain_text("No sample denies it.")
        await visit.page.keyboard.press("ArrowRight")
        await expect(detail).to_contain_text("Denied by")
        assert visit.complaints == []
        if folder := os.environ.get("COCOA_TEST_PICTURES"):
            await visit.page.screenshot(path=f"{folder}/sentences-{size[0]}.png", full_page=True)


async def test_the_slider_strikes_out_at_once_what_would_not_pass(browser, url):
    async with visiting(browser, url, route=("**/score", prose)) as visit:
        await ask_of_sentences(visit)
        struck, verdict = visit(".statement.struck"), visit(".part:has(.statements) .verdict")

        await expect(verdict).to_contain_text("1 of 3 sentences may pass with at most 10 % wrong")
        assert await struck.all_text_contents() == SAID[1:]
        num_asked = len(visit.urls)
        await choose_target(visit, 2)
        await expect(verdict).to_contain_text("2 of 3 sentences may pass with at most 20 % wrong")
        assert await struck.all_text_contents() == [SAID[1]]
        await choose_target(visit, 0)
        await expect(verdict).to_contain_text("0 of 3 sentences")
        await choose_target(visit, 3)
        await expect(verdict).to_have_count(0)
        await expect(struck).to_have_count(0)
        assert len(visit.urls) == num_asked


async def test_without_a_calibration_of_sentences_nothing_is_struck_out(browser, url):
    async with visiting(browser, url) as visit:
        await visit.is_ready()
        await visit.unfold()
        await visit.page.select_option("#units", "sentences")
        await expect(visit("#target-said")).to_contain_text("says nothing of sentences")
        await visit.ask("What is the capital of France?")

        await expect(visit(".statement")).to_have_count(1)
        await expect(visit(".statement.struck")).to_have_count(0)
        await expect(visit(".part:has(.statements) .verdict")).to_have_count(0)
