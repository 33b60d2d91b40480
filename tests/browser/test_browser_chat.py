"""Chats, answers of one's own and labels on the page at `/`."""

import json

import pytest
from playwright.async_api import expect

from app.settings import Settings
from tests.browser.pages import KNOWN, MADE_UP, embedded_service, taking_chats, visiting

pytestmark = pytest.mark.anyio

SERBIA = "It is in Serbia."


def posts(visit):
    """Paths and bodies of what the page posts, as they come."""
    sent = []

    def note(request):
        if request.method == "POST":
            sent.append((request.url.rpartition("/")[2], json.loads(request.post_data)))

    visit.page.on("request", note)
    return sent


async def test_a_chat_goes_on_from_its_answer_until_a_new_one(browser, url):
    route = await taking_chats(url, explain=True, return_samples=True)
    async with visiting(browser, url, route=route) as visit:
        sent = posts(visit)
        await visit.is_ready()
        await visit.choose(prompt=MADE_UP, system="Be brief.")
        await visit.page.click("#ask")
        await visit.is_over()
        system = {"role": "system", "content": "Be brief."}
        first = {"role": "user", "content": MADE_UP}
        assert sent[-1][1]["messages"] == [system, first]

        await visit.page.click("text=Go on with this chat")
        await expect(visit("#prompt")).to_be_focused()
        await expect(visit("#turns li")).to_have_count(2)
        await visit.ask(KNOWN)
        answer = (await visit.texts("#turns li"))[1].removeprefix("Model: ")
        said = {"role": "assistant", "content": answer}
        second = {"role": "user", "content": KNOWN}
        assert sent[-1][1]["messages"] == [system, first, said, second]

        await visit.page.click("text=New chat")
        await visit.ask(MADE_UP, system="")
        assert sent[-1][1]["messages"] == [first]
        await expect(visit("#turns")).to_be_empty()
        assert visit.complaints == []


async def test_a_system_prompt_for_a_model_that_has_no_place_for_it_goes_before_the_question(
    browser, url
):
    async with visiting(browser, url) as visit:
        await visit.is_ready()
        await visit.ask(KNOWN, system="Be brief.")
        await expect(visit(".warnings")).to_contain_text("it was put before the question")


async def test_where_system_prompts_are_not_merged_one_is_refused_in_words(browser):
    strict = Settings(merge_system=False)
    async with embedded_service(strict) as url, visiting(browser, url) as visit:
        await visit.is_ready()
        await visit.ask(KNOWN, system="Be brief.")
        await expect(visit("#notice")).to_contain_text("leaves this message out")
        await expect(visit("#notice")).to_contain_text("messages.0")
        await expect(visit("#notice")).to_contain_text("empty the system prompt")


async def test_a_model_without_a_calibrator_for_prompts_is_sent_a_message(browser, url):
    async with visiting(browser, url) as visit:
        sent = posts(visit)
        await visit.is_ready()
        await visit.choose(prompt=KNOWN)
        await visit.page.select_option("#target_error", "")
        await visit.page.click("#ask")
        await visit.is_over()
        assert [next(iter(body)) for _, body in sent] == ["messages"]


async def test_what_is_calibrated_for_prompts_is_sent_as_one_and_stays_so(browser, url):
    async def refuse(route):
        if "messages" in (route.request.post_data or ""):
            message = "not calibrated for messages: ask with prompt, or calibrate for it"
            error = {"code": "not_calibrated", "message": message, "field": "target_error"}
            await route.fulfill(status=422, json={"error": error})
        else:
            await route.continue_()

    async with visiting(browser, url, route=("**/*", refuse)) as visit:
        sent = posts(visit)
        await visit.is_ready()
        await visit.ask(KNOWN)
        await visit.ask(MADE_UP)
        assert [next(iter(body)) for _, body in sent] == ["messages", "prompt", "prompt"]
        await expect(visit(".gauge [role=meter]")).to_have_count(1)


async def test_a_model_without_a_chat_template_is_sent_text(browser, url):
    async def refuse(route):
        if "messages" in (route.request.post_data or ""):
            error = {"code": "chat_template_error", "message": "no template", "field": "messages"}
            await route.fulfill(status=422, json={"error": error})
        else:
            await route.continue_()

    async with visiting(browser, url, route=("**/*", refuse)) as visit:
        await visit.is_ready()
        await visit.ask(KNOWN)
        await expect(visit(".gauge")).to_have_count(1)
        await visit.ask(KNOWN, system="Be brief.")
        await expect(visit("[role=alert]")).to_contain_text("chat_template_error")


async def test_an_answer_of_ones_own_is_scored(browser, url):
    async with visiting(browser, url) as visit:
        sent = posts(visit)
        await visit.is_ready()
        await visit.page.click("#given summary")
        await visit.page.fill("#answer", SERBIA)
        await expect(visit("#ask")).to_have_text("Score the answer")
        await visit.ask(MADE_UP, seed=7)
        assert {path for path, _ in sent} == {"score"}
        assert sent[-1][1]["answer"] == SERBIA
        await expect(visit(".run h3")).to_have_text("Your answer")
        assert await visit(".tokens").text_content() == f"{SERBIA}end"
        await expect(visit(".verdict")).to_have_attribute("data-accept", "false")
        await expect(visit(".groups")).to_have_count(1)

        await visit(".example").first.click()
        await visit.is_over()
        await expect(visit(".run h3")).to_have_text("Full")
        assert visit.complaints == []


@pytest.mark.parametrize(("name", "correct"), [("Right", True), ("Wrong", False)])
async def test_an_answer_is_labelled(browser, url, name, correct):
    async def keep(route):
        await route.fulfill(json={"id": "1", "quality": float(correct), "task": None})

    async with visiting(browser, url, route=("**/feedback", keep)) as visit:
        sent = posts(visit)
        await visit.is_ready()
        await visit.ask(KNOWN)
        await visit(f".rating button:has-text('{name}')").click()
        await expect(visit(".rating")).to_contain_text("Kept")
        await expect(visit(".rating [aria-pressed=true]")).to_contain_text(name)
        path, body = sent[-1]
        assert (path, body["correct"], len(body["id"])) == ("feedback", correct, 32)


async def test_where_no_labels_are_kept_that_is_said_once(browser, url):
    async with visiting(browser, url) as visit:
        await visit.is_ready()
        await visit.ask(KNOWN)
        await visit(".rating button:has-text('Right')").click()
        await expect(visit(".rating")).to_contain_text("This service keeps no labels.")
        await visit.ask(KNOWN)
        await expect(visit(".rating [aria-pressed]")).to_have_count(0)
