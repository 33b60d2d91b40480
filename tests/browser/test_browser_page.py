"""Answers on the page at `/`, in a real Chromium, over the embedded models."""

import re

import pytest
from playwright.async_api import expect

from models.estimators import ESTIMATORS
from tests.browser.pages import KNOWN, MADE_UP, answered, visiting
from tests.browser.test_browser_chat import posts

pytestmark = pytest.mark.anyio

# An answer like those that the probe was trained on; that to KNOWN lies farther out than 99 of 100.
NEAR = "What is the capital of Senegal?"


async def test_a_full_answer_has_tokens_gauge_verdict_groups_scores_and_times(browser, url):
    told = {"explain": True, "return_samples": True, "return_tokens": True}
    api = await answered(url, MADE_UP, **told)
    async with visiting(browser, url) as visit:
        await visit.is_ready()
        await visit.choose()
        await visit.page.uncheck("#cache")
        await visit.ask(MADE_UP, seed=7)

        assert await visit(".tokens").text_content() == f"{api['text'].strip()}end"
        shades = await visit(".tokens .token").evaluate_all(
            "all => all.map(one => Number(one.style.getPropertyValue('--s')))"
        )
        surprises = [-token["logprob"] for token in api["tokens"]]
        assert shades.index(max(shades)) == surprises.index(max(surprises))

        confidence = str(int(100 * api["confidence"] + 0.5))
        await expect(visit("[role=meter]")).to_have_attribute("aria-valuenow", confidence)
        verdict = visit(".verdict")
        await expect(verdict).to_have_attribute("data-accept", "false")
        threshold = f"{api['decision']['threshold']:.3g}"
        await expect(verdict).to_contain_text(f"above the threshold {threshold}")
        await expect(verdict).to_contain_text(api["decision"]["guarantee"])

        base = api["scores"]["root_sp"]
        inconsistency = api["uncertainty"] / base
        factors = visit(".factors")
        await expect(factors).to_contain_text(f"{base:.3g} How surprising its whole")
        await expect(factors).to_contain_text(f"something else: {100 * inconsistency:.0f} %")
        known = ESTIMATORS["inconsistency"]
        told = f"{known.title}. {known.formula}. It runs from 0 to 1. {known.source}."
        await expect(visit("table.stacked")).to_contain_text(told)

        shares = await visit.texts(".groups .share")
        assert shares == [f"{100 * group['share']:.0f} %" for group in api["groups"]]
        assert await visit.texts(".groups q") == [one["text"] for one in api["groups"]]
        notes = await visit.texts(".groups .note")
        for note, group in zip(notes, api["groups"], strict=True):
            assert f"similarity to the answer {group['similarity']:.2f}" in note
        names = await visit.texts("table.stacked tbody th")
        assert names[0] == api["estimator"]
        assert set(names) == set(api["scores"])
        assert all(await visit.texts("table.stacked .meaning")), "a score says what it is"
        await expect(visit(".times")).to_contain_text("comparing")
        assert visit.complaints == []
        assert all(one.startswith(url) for one in visit.urls), "it asks no other host"


async def test_a_light_answer_says_what_the_probe_predicts(browser, url):
    api = await answered(url, NEAR, mode="light")
    async with visiting(browser, url) as visit:
        sent = posts(visit)
        await visit.is_ready()
        await visit.ask(NEAR, "light")

        of_samples = {"num_samples", "temperature", "explain", "return_samples"}
        assert all(of_samples.isdisjoint(body) for _, body in sent)
        await expect(visit(".run h3")).to_have_text("Light")
        await expect(visit(".verdict")).to_have_attribute("data-accept", "true")
        await expect(visit(".run")).to_contain_text("No samples were drawn")
        await expect(visit(".factors")).to_contain_text("A probe predicts that so much")
        await expect(visit(".groups")).to_have_count(0)
        assert set(await visit.texts("table.stacked tbody th")) == set(api["scores"])
        assert visit.complaints == []


async def test_a_sure_answer_that_the_probe_does_not_know_does_not_pass_and_says_why(browser, url):
    async with visiting(browser, url) as visit:
        await visit.is_ready()
        await visit.ask(KNOWN, "light")

        await expect(visit(".verdict")).to_have_attribute("data-accept", "false")
        await expect(visit(".verdict")).to_contain_text("Not for its uncertainty. out_of_domain")
        assert visit.complaints == []


async def test_light_stands_beside_full_with_their_times(browser, url):
    async with visiting(browser, url) as visit:
        await visit.is_ready()
        await visit.ask(MADE_UP, "both", seed=7)

        # Both at one moment: the page may still be scrolling to the answer.
        full, light = await visit("article.run").evaluate_all(
            "runs => runs.map(run => run.getBoundingClientRect().toJSON())"
        )
        assert full["y"] == light["y"]
        assert full["x"] < light["x"]
        assert await visit.texts("#comparison thead th") == ["Full", "Light"]
        rows = dict.fromkeys(await visit.texts("#comparison tbody th"))
        assert {"Answer", "Confidence", "Verdict", "First token", "Everything"} <= rows.keys()
        assert visit.complaints == []


async def test_every_available_score_can_be_had_in_both_modes(browser, url):
    async with visiting(browser, url) as visit:
        await visit.is_ready()
        await visit.choose("both", prompt=KNOWN)
        await visit.page.check("#all")
        await visit.page.click("#ask")
        await visit.is_over()

        full, light = await visit("article.run").all()
        assert await full.locator("table.stacked tbody tr").count() > 30
        names = await light.locator("table.stacked tbody th").all_inner_texts()
        assert "high_semantic_entropy_light" in names
        assert "inconsistency" not in names


async def test_a_request_that_is_not_calibrated_is_answered_without_a_verdict(browser, url):
    async with visiting(browser, url) as visit:
        await visit.is_ready()
        await visit.ask(MADE_UP, num_samples=5)

        await expect(visit(".verdict")).to_contain_text("not calibrated for num_samples 5")
        await expect(visit(".run")).not_to_contain_text(re.compile("GET|POST"))
        await expect(visit(".gauge.plain")).to_contain_text("rb_cocoa_root_sp")
        await expect(visit("#notice")).to_be_empty()


async def test_an_error_names_code_and_field_and_leads_to_it(browser, url):
    wrong = {"estimator": "consistency_of_mine", "max_new_tokens": 0, "num_samples": "many"}
    right = {"prompt": KNOWN, "estimator": "", "max_new_tokens": "", "num_samples": 10, "seed": 7}
    async with visiting(browser, url) as visit:
        await visit.is_ready()
        for field, value in {"prompt": "", **wrong, "seed": "-2"}.items():
            await visit.ask(**right | {field: value})
            alert = visit("[role=alert]")
            await expect(alert).to_contain_text("invalid_request")
            assert field in await alert.locator("dd code").all_inner_texts()
            await expect(alert).not_to_contain_text(" /")  # no address of the service
            await visit.is_refused(f"#{field}")
            await expect(visit("article.run")).to_have_count(0)

        await visit.ask(**right)
        await expect(alert).to_have_count(0)
        await expect(visit("[aria-invalid]")).to_have_count(0)
