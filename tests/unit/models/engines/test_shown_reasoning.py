"""The tags of a reasoning are found in what a chat template renders, whatever their names are."""

from dataclasses import replace

import pytest

from models.engines.reasoning import empty_reasoning, opens_reasoning, tags_of
from models.engines.tags import HARMONY, KNOWN_TAGS, tags_around
from models.errors import InvalidRequest
from models.records import GenerationRequest, GivenAnswer, SamplingParams
from models.statistics import supplied_by
from tests.tiny_models import byte_tokenizer, random_model
from tests.unit.models.engines.tiny_engines import engine_of, running


def template(turn, prompt, user="[user]{{ m.content }}[end]"):
    """A template of messages; `turn` is an assistant's, `prompt` begins its generation."""
    turns = f"{{% if m.role == 'assistant' %}}{turn}{{% else %}}{user}{{% endif %}}"
    loop = f"{{% for m in messages %}}{turns}{{% endfor %}}"
    return f"{loop}{{% if add_generation_prompt %}}{prompt}{{% endif %}}"


def shown(before, behind, field="reasoning_content"):
    """A reasoning where the message has one."""
    return f"{{% if m.{field} %}}{before}{{{{ m.{field} }}}}{behind}{{% endif %}}"


# In the manner of models of 2026: the first four write their tags otherwise than by <think>.
OPEN, SHUT = "<|open|>think<|sep|>", "<|close|>think<|sep|>"
RESPONSE = "<|open|>response<|sep|>"
MESSAGE = '<|open|>message role="assistant"<|sep|>'
KIMI = "{% if thinking is undefined %}{% set thinking = true %}{% endif %}" + template(
    f"{MESSAGE}{{% if thinking %}}{OPEN}{{{{ m.reasoning_content or '' }}}}{SHUT}{{% endif %}}"
    f"{RESPONSE}{{{{ m.content }}}}<|close|>response<|sep|>",
    f"{MESSAGE}{{{{ '{OPEN}' if thinking else '{RESPONSE}' }}}}",
    '<|open|>message role="user"<|sep|>{{ m.content }}<|close|>message<|sep|>',
)
EMPTY = "{% if not enable_thinking %}{{ '<|channel>thought\\n<channel|>' }}{% endif %}"
GEMMA = template("<|turn>model\n{{ m.content }}<turn|>\n", "<|turn>model\n" + EMPTY)
GEMMA_SHOWN = template(
    "<|turn>model\n" + shown("<|channel>thought\n", "<channel|>") + "{{ m.content }}<turn|>\n",
    "<|turn>model\n" + EMPTY,
)
STEPS, FINAL = "Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]"
APRIEL = template(
    "<|begin_assistant|>\n" + shown("", f"\n{FINAL}\n") + "{{ m.content }}\n<|end|>\n",
    f"<|begin_assistant|>\n{STEPS}\n",
)
# It writes a generation prompt behind every user's turn, whether one is asked for or not.
ALWAYS = APRIEL.replace("{% if add_generation_prompt %}", "{% if messages[-1].role == 'user' %}")
HY = template(
    "<hy>{% if is_training %}" + shown("<think:opensource>", "</think:opensource>")
    + "{% else %}<think:opensource></think:opensource>{% endif %}{{ m.content }}<eos>",
    "<hy><think:opensource>{% if reasoning_effort != 'high' %}</think:opensource>{% endif %}",
)  # fmt: skip
MINIMAX = template(
    "]~b]ai\n" + shown("<mm:think>\n", "\n</mm:think>\n\n") + "{{ m.content }}[e~[\n",
    "]~b]ai\n<mm:think>\n",
)
# Of nobody.
LEFT = template("(a)" + shown("{pondering}", "{/pondering}", "thinking") + "{{ m.content }}", "(a)")
WORDS = template(
    "A: " + shown("My thoughts:\n", "\nMy answer:\n", "reasoning") + "{{ m.content }}\n", "A: "
)
# The thoughts are a turn of their own, of another role.
TURN, ENDED = "<|im_start|>assistant", "<|im_end|>\n"
CLOVA = template(
    shown(f"{TURN}/think\n", ENDED) + f"{TURN}\n{{{{ m.content }}}}{ENDED}",
    TURN,
    "<|im_start|>user\n{{ m.content }}" + ENDED,
)
FOUND = {
    "HyperCLOVA X": (CLOVA, "/think", ENDED + TURN, False),
    "Kimi-K3": (KIMI, OPEN, SHUT + RESPONSE, True),
    "Gemma 4": (GEMMA, "<|channel>thought", "<channel|>", False),
    "Gemma 4, shown": (GEMMA_SHOWN, "<|channel>thought", "<channel|>", False),
    "Apriel": (APRIEL, STEPS, FINAL, True),
    "Apriel, always": (ALWAYS, STEPS, FINAL, True),
    "Hy3": (HY, "<think:opensource>", "</think:opensource>", False),
    "MiniMax-M3": (MINIMAX, "<mm:think>", "</mm:think>", True),
    "left to the model": (LEFT, "{pondering}", "{/pondering}", False),
    "words": (WORDS, "My thoughts:", "My answer:", False),
}


def asking(content="Hi", **variables):
    chat = ({"role": "user", "content": content},)
    return GenerationRequest(messages=chat, chat_template_kwargs=variables)


@pytest.mark.parametrize(("source", "start", "end", "opened"), FOUND.values(), ids=FOUND)
def test_tags_are_what_stands_around_a_reasoning_that_the_template_renders(
    source, start, end, opened
):
    tokenizer = byte_tokenizer(chat_template=source)
    tags = tags_of(tokenizer, "auto")

    assert (tags.start, tags.end) == (start, end)
    assert opens_reasoning(tokenizer, asking(), tags) is opened
    assert opens_reasoning(tokenizer, asking(f"Say {start}"), tags) is opened
    said = tags.part([f"{start}Easy one.{end}", "Paris"])
    assert (said[0].text, said[1]) == ("Easy one.", "Paris")


@pytest.mark.parametrize(
    ("source", "variables", "opened"),
    [
        (KIMI, {"thinking": False}, False),
        (GEMMA, {"enable_thinking": True}, False),
        (HY, {"reasoning_effort": "high"}, True),
        (HY, {"reasoning_effort": "none"}, False),
    ],
)
def test_a_variable_of_the_request_may_open_a_reasoning_or_not(source, variables, opened):
    tokenizer = byte_tokenizer(chat_template=source)
    assert opens_reasoning(tokenizer, asking(**variables), tags_of(tokenizer, "auto")) is opened


def test_no_effort_that_a_template_does_not_read_is_refused_where_its_prompt_opens_a_reasoning():
    with pytest.raises(InvalidRequest) as error:
        engine_of(random_model("llama"), byte_tokenizer(chat_template=KIMI)).prepare(
            asking(reasoning_effort="none")
        )

    assert error.value.field == "reasoning_effort"


@pytest.mark.parametrize(
    ("source", "rest"),
    [(KIMI, SHUT + RESPONSE), (MINIMAX, "\n</mm:think>\n\n"), (GEMMA_SHOWN, ""), (HY, "")],
    ids=["Kimi-K3", "MiniMax-M3", "Gemma 4", "Hy3"],
)
def test_a_reasoning_without_thoughts_is_what_the_template_writes(source, rest):
    tokenizer = byte_tokenizer(chat_template=source)
    ids = empty_reasoning(tokenizer, asking(), tags_of(tokenizer, "auto"))
    assert tokenizer.decode(ids) == rest


@pytest.mark.parametrize(
    "source",
    [
        template("[a]{{ m.content }}[end]", "[a]"),
        template("[a]{{ m.content }}[end]", "[a]{{ raise_exception('no') }}"),
        template("[a]{{ m.content }}" + shown("<t>", "</t>"), "[a]"),
        template("[a]" + shown("", "") + "{{ m.content }}", "[a]"),
        template("[a]" + shown("", "[b]") + "{{ m.content }}", "[a]"),
        None,
    ],
    ids=["none is shown", "it cannot render", "behind the answer", "without tags",
         "without a first tag", "no template"],
)  # fmt: skip
def test_a_template_that_shows_no_tags_around_a_reasoning_has_none(source):
    assert tags_of(byte_tokenizer(chat_template=source), "auto") is None


def test_a_template_that_only_leaves_the_reasoning_out_has_the_tags_that_are_known():
    split = "[a]{{ m.content.split('</think>')[-1] }}[end]"
    assert tags_of(byte_tokenizer(chat_template=template(split, "[a]")), "auto") == KNOWN_TAGS[0]
    shows = "[a]" + shown("<think>\n", "\n</think>\n\n") + "{{ m.content }}[end]"
    assert tags_of(byte_tokenizer(chat_template=template(shows, "[a]")), "auto") == KNOWN_TAGS[0]


def test_channels_are_known_by_their_tokens_whatever_the_template_renders():
    tokenizer = byte_tokenizer(chat_template=GEMMA_SHOWN)
    tokenizer.add_tokens(["<|channel|>", "<|message|>", "<|start|>"], special_tokens=True)
    assert tags_of(tokenizer, "auto") == HARMONY


def test_of_lines_behind_the_thoughts_the_first_one_is_the_tag():
    turn = "Q<a>\n<think>\nx\n</think>\n<answer>\ny\n</answer>"
    tags = tags_around(turn, "Q<a>\n<answer>\ny\n</answer>", "Q<a>\n", "x", "y")
    assert (tags.start, tags.end) == ("<think>", "</think>")


@pytest.mark.anyio
async def test_thoughts_of_a_given_answer_are_not_scored():
    tokenizer = byte_tokenizer(chat_template=GEMMA)
    tokenizer.add_tokens(["<|channel>", "<channel|>"], special_tokens=True)
    model = random_model("llama")
    model.resize_token_embeddings(len(tokenizer))
    sampling = SamplingParams(0, 40)
    chat = asking().messages
    async with running(engine_of(model, tokenizer)) as worker:
        given = GivenAnswer("<|channel>thought\nEasy one.<channel|>Paris")
        request = GenerationRequest(messages=chat, sampling=sampling, answer=given)
        answer = (await worker.generate(request)).answer

    assert (answer.reasoning.text, answer.text) == ("Easy one.", "Paris")
    assert answer.num_tokens == len("Paris") + 1  # and the end


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("text", "thoughts", "answer", "rest"),
    [
        ("Easy one.</mm:think>\nParis", "Easy one.", "\nParis", ""),
        ("<mm:think>\nEasy one.</mm:think>Paris", "Easy one.", "Paris", ""),
        ("Paris", "", "Paris", "\n</mm:think>\n\n"),
        ("<mm:think>Par", "Par", "", ""),
    ],
    ids=["raw output", "with its tag", "an answer alone", "unfinished"],
)
async def test_a_given_answer_goes_on_where_the_prompt_has_opened_a_reasoning(
    text, thoughts, answer, rest
):
    tokenizer, model = byte_tokenizer(chat_template=MINIMAX), random_model("llama")
    law = SamplingParams(0, 60)
    given = GivenAnswer(text, append_eos=False)
    chat = GenerationRequest(
        messages=asking().messages, sampling=law, answer=given, statistics=supplied_by("answer")
    )
    shown = f"[user]Hi[end]]~b]ai\n<mm:think>\n{rest}{text}".removesuffix(answer)
    ids = tuple(tokenizer(shown, add_special_tokens=False).input_ids)
    plain = replace(chat, messages=None, prompt=shown, prompt_ids=ids)
    plain = replace(plain, answer=replace(given, text=answer))
    async with running(engine_of(model, tokenizer)) as worker:
        found = (await worker.generate(chat)).answer
    async with running(engine_of(model, tokenizer, reasoning="off")) as worker:
        expected = (await worker.generate(plain)).answer

    assert (found.reasoning.text, found.text) == (thoughts, answer)
    assert found.reasoning.is_finished is bool(answer)
    assert found.token_ids == expected.token_ids
    assert found.token_logprobs == pytest.approx(expected.token_logprobs, abs=1e-4)
