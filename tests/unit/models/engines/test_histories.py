"""Histories in the manner of this year's chat templates: prompts are those of transformers."""

import copy
import json

import pytest

from app.http.requests.messages import ChatMessage, Templated
from models.engines.chats import encode_chat, left_out, refusal_of
from models.errors import ChatTemplateError
from models.records import GenerationRequest
from models.warnings import Warned
from tests.tiny_models import byte_tokenizer

SINCE_LAST = (
    "{% set ns = namespace(last=-1) %}{% for m in messages %}{% if m.role == 'user' %}"
    "{% set ns.last = loop.index0 %}{% endif %}{% endfor %}"
)
LAST = "{% if m.reasoning_content and loop.index0 > ns.last %}"
THOUGHTS = "<think>{{ m.reasoning_content }}</think>{% endif %}"
ALWAYS = "{% if m.reasoning_content %}" + THOUGHTS
HERMES = '<call>{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}'
PARTS = (
    "{% macro text(content) %}{% if content is string %}{{ content }}{% else %}{% for p in content "
    "%}{{ p.text }}{% endfor %}{% endif %}{% endmacro %}"
)


def family(turn, call, *, lead="", said="{{ m.content }}", user="{{ m.role }}", result="[tool]"):
    """A template: `turn` precedes what an assistant says, `call` is one call."""
    return (
        f"{lead}{{% for m in messages %}}{{% if m.role == 'assistant' %}}[a]{turn}{said}"
        f"{{% for c in m.tool_calls or [] %}}{call}{{% endfor %}}{{% elif m.role == 'tool' %}}"
        f"{result}{said}{{% else %}}[{user}]{said}{{% endif %}}{{% endfor %}}"
        "{% if add_generation_prompt %}[a]{% endif %}"
    )


XML = (
    "<call>{{ c.function.name }}{% for key, value in c.function.arguments.items() %}"
    "<key>{{ key }}<value>{{ value | tojson }}{% endfor %}"
)
NO_TEXT = "{% if not m.tool_calls %}{{ m.content }}{% endif %}"
QWEN = family(LAST + THOUGHTS, HERMES, lead=SINCE_LAST)
GLM = family(LAST + THOUGHTS, XML, lead=PARTS + SINCE_LAST, said="{{ text(m.content) }}")
KIMI_2 = family(
    LAST + THOUGHTS, "<call>{{ c.id }}<with>{{ c.function.arguments | tojson }}", lead=SINCE_LAST,
    user="{{ m.get('name') or m.role }}", result="[tool of {{ m.tool_call_id }}]",
)  # fmt: skip
KIMI_3 = family(ALWAYS, XML, user='{{ m.role }}{% if m.name %} name="{{ m.name }}"{% endif %}')
GEMMA = family(
    "{% set thought = m.get('reasoning') or m.get('reasoning_content') %}"
    "{% if thought and m.tool_calls %}<|channel>{{ thought }}<channel|>{% endif %}",
    XML, lead=PARTS, said="{{ text(m.content) | trim }}", result="{{ m.name }}:",
)  # fmt: skip
MISTRAL = family(
    "", "{% if c.id | length < 9 %}{{ raise_exception('Ids have nine characters.') }}{% endif %}"
    "[CALL]{{ c.function | tojson }}{{ c.id[-9:] }}", said=NO_TEXT,
)  # fmt: skip
COMMAND_R = family(ALWAYS, HERMES + "{{ c.id }}", said=NO_TEXT)
DEEPSEEK = family("", "<call>{{ c.function.name + '<sep>' + c.function.arguments }}")
MINIMAX = family(LAST + THOUGHTS, XML, lead=PARTS + SINCE_LAST, said="{{ text(m.content) }}")
SEED = family(ALWAYS, XML)
LFM = family(
    "{% if keep_thoughts or loop.index0 > ns.last %}" + ALWAYS + "{% endif %}", HERMES,
    lead=SINCE_LAST,
)  # fmt: skip
PHI = family("", HERMES, lead="{% for tool in tools %}{{ tool | tojson }}{% endfor %}")
GPT_OSS = family(
    "{% if m.tool_calls and m.thinking and m.content %}"
    "{{ raise_exception('Send content or thinking, not both.') }}{% endif %}"
    "{% if m.thinking and m.tool_calls %}<|channel|>analysis{{ m.thinking }}{% endif %}",
    HERMES,
)  # fmt: skip

CALL_ID = "call00001"


def called(content="", **fields):
    function = {"name": "weather", "arguments": {"city": "Rome"}}
    calls = [{"id": CALL_ID, "type": "function", "function": function}]
    return {"role": "assistant", "content": content, "tool_calls": calls, **fields}


def answered(**fields):
    return {"role": "assistant", "content": "So.", **fields}


ASKED, AGAIN = {"role": "user", "content": "How?"}, {"role": "user", "content": "Why?"}
RESULT = {"role": "tool", "content": "21", "tool_call_id": CALL_ID, "name": "weather"}
TURNS = [{"role": "system", "content": "Be brief."}, ASKED, answered(), AGAIN]
HISTORIES = {
    "turns": TURNS,
    "call": [ASKED, called(), RESULT],
    "reasoned": [ASKED, answered(reasoning_content="Hm."), AGAIN],
    "by another name": [ASKED, answered(reasoning="Hm."), AGAIN],
    "by a third name": [ASKED, answered(thinking="Hm."), AGAIN],
    "call reasoned": [ASKED, called(reasoning_content="Hm."), RESULT],
    "beside": [ASKED, called("Wait."), RESULT],
    "beside reasoned": [ASKED, called("Wait.", reasoning="Hm."), RESULT],
    "named": [ASKED | {"name": "Bo"}, answered(), AGAIN],
}
REASONED = ("reasoned", "by another name", "by a third name")
REASONED_CALLS = ("call reasoned", "beside reasoned")
BESIDE = ("beside", "beside reasoned")
# Of each template the histories of which it leaves out reasoning, words beside a call, or names.
FAMILIES = {
    "Qwen3": (QWEN, REASONED, (), ["named"]),
    "GLM": (GLM, REASONED, (), ["named"]),
    "Kimi-K2": (KIMI_2, REASONED, (), ()),
    "Kimi-K3": (KIMI_3, (), (), ()),
    "Gemma 4": (GEMMA, REASONED, (), ["named"]),
    "Mistral": (MISTRAL, (*REASONED, *REASONED_CALLS), BESIDE, ["named"]),
    "Command R": (COMMAND_R, (), BESIDE, ["named"]),
    "DeepSeek": (DEEPSEEK, (*REASONED, *REASONED_CALLS), (), ["named"]),
    "MiniMax": (MINIMAX, REASONED, (), ["named"]),
    "Seed-OSS": (SEED, (), (), ["named"]),
    "LFM2.5": (LFM, REASONED, (), ["named"]),
    "Phi-4": (PHI, (*REASONED, *REASONED_CALLS), (), ["named"]),
    "gpt-oss": (GPT_OSS, REASONED, (), ["named"]),
}


def sent(history):
    """A request as a client of OpenAI's sends the history: arguments are JSON."""
    history = json.loads(json.dumps(history))
    for message in history:
        for call in message.get("tool_calls", ()):
            call["function"]["arguments"] = json.dumps(call["function"]["arguments"])
    chat = [ChatMessage.model_validate(message) for message in history]
    messages = Templated().chat_fields(chat, None)["messages"]
    return GenerationRequest(messages=messages)


def theirs(tokenizer, history, *, tools=None):
    rendered = tokenizer.apply_chat_template(history, tools=tools, add_generation_prompt=True)
    return rendered["input_ids"]


@pytest.mark.parametrize("name", HISTORIES)
@pytest.mark.parametrize(
    ("source", "no_reasoning", "no_text", "no_names"), FAMILIES.values(), ids=FAMILIES
)
def test_a_prompt_is_that_of_transformers_and_what_it_leaves_out_is_warned_of(
    source, no_reasoning, no_text, no_names, name
):
    tokenizer, history = byte_tokenizer(chat_template=source), HISTORIES[name]
    request, tools, shown = sent(history), None, copy.deepcopy(history)
    if source == PHI:
        tools = []
    if source == DEEPSEEK:
        for message, with_json in zip(shown, request.messages, strict=True):
            message |= {key: with_json[key] for key in message.keys() & {"tool_calls"}}
    if source == GPT_OSS and name == "beside reasoned":
        with pytest.raises(ChatTemplateError, match="Send content or thinking"):
            encode_chat(tokenizer, request)
        return
    assert encode_chat(tokenizer, request) == theirs(tokenizer, shown, tools=tools)

    expected = {
        Warned.REASONING_NOT_SHOWN: name in no_reasoning,
        Warned.TEXT_BESIDE_CALLS_NOT_SHOWN: name in no_text,
        Warned.NAMES_NOT_SHOWN: name in no_names,
    }
    assert set(left_out(tokenizer, request)) == {code for code, holds in expected.items() if holds}


@pytest.mark.parametrize("source", [GLM, GEMMA, MINIMAX])
def test_lists_of_parts_are_shown_as_templates_show_them(source):
    tokenizer = byte_tokenizer(chat_template=source)
    history = []
    for message in TURNS:
        history.append(message | {"content": [{"type": "text", "text": message["content"]}]})
    assert encode_chat(tokenizer, sent(history)) == theirs(tokenizer, history)


def test_a_call_that_is_not_shown_by_name_id_or_arguments_is_refused():
    first_alone = SEED.replace("m.tool_calls or []", "(m.tool_calls or [])[:1]")
    several = called() | {"tool_calls": called()["tool_calls"] * 2}
    request = sent([ASKED, several, RESULT])
    with pytest.raises(ChatTemplateError) as refused:
        left_out(byte_tokenizer(chat_template=first_alone), request)
    assert refused.value.field == "messages.1"


NO_CHAT = {
    "no template": ("{% for m in messages %}", "TemplateSyntaxError: Unexpected end of template"),
    "a demand": ("{{ raise_exception('Send a secret ' ~ 'word.') }}", "Send a secret"),
    "a list of functions": ("{{ functions | tojson }}", "TypeError: Object of type Undefined"),
}


DROPS_IT = {
    "parts alone": "{{ messages[0].content[0].text }}",
    "roles alone": "{% for m in messages %}{{ m.role }}{% endfor %}",
    "no messages": "hello",
}


@pytest.mark.parametrize("source", DROPS_IT.values(), ids=DROPS_IT)
def test_a_template_that_leaves_out_even_a_plain_question_says_so(source):
    tokenizer = byte_tokenizer(chat_template=source)
    assert "leaves this message out" in refusal_of(tokenizer, "user")
    with pytest.raises(ChatTemplateError, match="leaves this message out") as refused:
        left_out(tokenizer, sent([ASKED]))
    assert refused.value.field == "messages.0"


@pytest.mark.parametrize(("source", "words"), NO_CHAT.values(), ids=NO_CHAT)
def test_a_template_that_takes_no_chat_says_so_and_so_does_each_refusal(source, words):
    tokenizer = byte_tokenizer(chat_template=source)
    assert words in refusal_of(tokenizer, "user")
    with pytest.raises(ChatTemplateError) as refused:
        encode_chat(tokenizer, sent([ASKED]))
    assert words in refused.value.message


CHOOSY = (
    "{% if effort is defined and effort not in ('low', 'high') %}"
    "{{ raise_exception('Unknown effort=' + effort + '.') }}{% endif %}"
    "{% if reasoning_effort == 'max' %}{{ raise_exception('Too much.') }}{% endif %}"
    "{% for t in tools or [] %}{{ t.function.description + '' }}{% endfor %}"
    "{% for m in messages %}{% if m.content == 'no' %}{{ raise_exception('Say yes.') }}{% endif %}"
    "{{ m.content }}{% endfor %}"
)
TOOL = {"type": "function", "function": {"name": "f"}}


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"chat_template_kwargs": {"effort": "secret"}}, "chat_template_kwargs", "Unknown effort="),
        ({"chat_template_kwargs": {"reasoning_effort": "max"}}, "reasoning_effort", "Too much."),
        ({"tools": (TOOL,)}, "tools", "refused it"),
        ({"messages": ({"role": "user", "content": "no"},)}, "messages", "Say yes."),
    ],
    ids=["a variable", "an effort", "tools", "messages"],
)
def test_a_refusal_names_the_field_at_fault_in_the_templates_own_words(fields, field, words):
    request = GenerationRequest(**{"messages": (ASKED,), **fields})
    with pytest.raises(ChatTemplateError, match=words) as refused:
        encode_chat(byte_tokenizer(chat_template=CHOOSY), request)
    assert refused.value.field == field
    assert "secret" not in refused.value.message
