"""Tools in chat templates: what a model is shown, and which templates are refused."""

import json

import pytest

from models.engines.reasoning import opens_reasoning
from models.engines.tags import KNOWN_TAGS
from models.engines.tokenization import encode_prompt
from models.errors import InvalidRequest
from models.grammar.calls import grammar_of_calls
from models.records import GenerationRequest, SamplingParams
from models.units.tool_calls import Call, read
from tests.tiny_models import CHAT_TEMPLATE, TOOL_TEMPLATE, byte_tokenizer, random_model
from tests.unit.models.engines.tiny_engines import ALL, engine_of, running

TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather </s> there.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
# As those of Qwen, Llama 3 and Mistral write turns, tools, calls and their results.
QWEN = """
{%- if tools %}<|im_start|>system
{%- for tool in tools %}
{{ tool | tojson }}{% endfor %}
Write <tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call><|im_end|>
{% endif %}
{%- for m in messages %}
{%- if m.role == 'tool' %}<|im_start|>user
<tool_response>
{{ m.content }}
</tool_response><|im_end|>
{% else %}<|im_start|>{{ m.role }}
{{ m.content }}
{%- for call in m.tool_calls or [] %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor %}<|im_end|>
{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{{ opening }}{% endif %}"""
LLAMA = """
{%- for m in messages %}
{%- if m.tool_calls %}<|start_header_id|>assistant<|end_header_id|>

{"name": "{{ m.tool_calls[0].function.name }}", "parameters": {{
m.tool_calls[0].function.arguments | tojson }}}<|eot_id|>
{%- else %}<|start_header_id|>{{ m.role }}<|end_header_id|>
{% if loop.first and tools %}{{ tools | tojson(indent=4) }}{% endif %}
{{ m.content }}<|eot_id|>
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>

{% endif %}"""
MISTRAL = """
{%- set users = messages | selectattr('role', 'equalto', 'user') | list %}
{%- for m in messages %}
{%- if m.role == 'user' %}
{%- if m == users[-1] and tools -%}
[AVAILABLE_TOOLS]{{ tools | tojson }}[/AVAILABLE_TOOLS]{% endif -%}
[INST]{{ m.content }}[/INST]
{%- elif m.tool_calls %}[TOOL_CALLS][
{%- for call in m.tool_calls %}
{%- if call.id | length != 9 %}{{ raise_exception('ids have nine characters') }}{% endif %}
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}, "id": "
{{- call.id }}"}{{ ", " if not loop.last }}
{%- endfor %}]</s>
{%- else %}{{ m.content }}</s>
{%- endif %}
{%- endfor %}"""
KNOWN = {"qwen": QWEN, "llama": LLAMA, "mistral": MISTRAL}

ARGUMENTS = {"city": "Grüße </s>", "days": [1, None]}
CALLED = {
    "role": "assistant",
    "content": "",
    "tool_calls": [
        {
            "id": "a1b2c3d4e",
            "type": "function",
            "function": {"name": "get_weather", "arguments": json.dumps(ARGUMENTS)},
        }
    ],
}
USER = {"role": "user", "content": "How is it there?"}
RESULT = {"role": "tool", "content": "21 degrees", "tool_call_id": "a1b2c3d4e"}


def shown(template, *messages, tools=(TOOL,), **variables):
    tokenizer = byte_tokenizer(chat_template=template)
    request = GenerationRequest(messages=messages, tools=tools, chat_template_kwargs=variables)
    ids = encode_prompt(tokenizer, request)
    return tokenizer.decode(ids), ids


@pytest.mark.parametrize("template", KNOWN.values(), ids=KNOWN.keys())
def test_a_model_is_shown_tools_calls_and_results_by_its_template(template):
    text, _ = shown(template, USER)
    assert '"name": "get_weather"' in text
    assert '"city"' in text
    text, _ = shown(template, USER, CALLED, RESULT, USER)
    assert '{"city": "Grüße </s>", "days": [1, null]}' in text, "an object, not its JSON"
    assert "21 degrees" in text


def test_special_tokens_in_tools_and_calls_are_text():
    _, ids = shown(QWEN, USER, CALLED, RESULT)
    assert 1 not in ids, "the end of a text, which the description and an argument spell out"


@pytest.mark.parametrize(
    ("template", "words"),
    [
        (CHAT_TEMPLATE, "takes no tools"),
        (
            "{{ tools }}{% for m in messages %}{{ m.content }}{% endfor %}",
            "format that is not read",
        ),
        (QWEN.replace('{"name": "{{', "<function={{"), "format that is not read"),
        (MISTRAL.replace("length != 9", "length == 9"), "format that is not read"),
    ],
    ids=["no tools", "no calls", "another format", "refuses calls"],
)
def test_tools_are_refused_where_calls_could_not_be_read(template, words):
    with pytest.raises(InvalidRequest, match=words) as refused:
        shown(template, USER)
    assert refused.value.field == "tools"


def test_tools_whose_calls_a_template_drops_are_refused():
    dropping = QWEN.replace("m.tool_calls or []", "(m.tool_calls or [])[1:]")
    with pytest.raises(InvalidRequest):
        shown(dropping, USER)


@pytest.mark.parametrize(("opening", "opened"), [("<think>", True), ("", False)])
def test_a_reasoning_is_opened_with_tools_as_without(opening, opened):
    tokenizer = byte_tokenizer(chat_template=QWEN)
    request = GenerationRequest(
        messages=(USER, CALLED, RESULT), tools=(TOOL,), chat_template_kwargs={"opening": opening}
    )
    assert opens_reasoning(tokenizer, request, KNOWN_TAGS[0]) is opened


def tool_of(name, **properties):
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    parameters |= {"additionalProperties": False}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


FORMAT = tool_of("", answer={"type": "boolean"})["function"]["parameters"]


@pytest.mark.anyio
@pytest.mark.parametrize("several", [True, False])
@pytest.mark.parametrize("mark", [None, "[TOOL_CALLS]"])
async def test_an_answer_that_may_call_is_valid_calls_or_json_of_its_format(several, mark):
    tools = (tool_of("weather", unit={"enum": ["C", "F"]}), tool_of("now"))
    tokenizer = byte_tokenizer(chat_template=TOOL_TEMPLATE)
    if mark is not None:
        tokenizer.add_special_tokens({"additional_special_tokens": [mark]})
    model = random_model("llama")
    model.resize_token_embeddings(len(tokenizer))
    request = GenerationRequest(
        messages=(USER,),
        tools=tools,
        grammar=grammar_of_calls(tools, several=several, answer=FORMAT),
        sampling=SamplingParams(num_samples=20, max_new_tokens=400, seed=3),
        statistics=ALL,
    )
    async with running(engine_of(model, tokenizer)) as worker:
        generation = await worker.generate(request)

    kinds = set()
    for sequence in (generation.answer, *generation.samples):
        found = read(sequence.text, ["weather", "now"])
        is_marked = mark is not None and tokenizer.convert_tokens_to_ids(mark) in sequence.token_ids
        kinds.add((type(found[0]), is_marked))
        if sequence.finish_reason == "length":
            continue
        if isinstance(found[0], str):
            assert json.loads(sequence.text)["answer"] in (True, False)
            continue
        assert several or len(found) == 1
        for call in found:
            arguments = json.loads(call.arguments)
            assert arguments == {} if call.name == "now" else arguments["unit"] in ("C", "F")
    assert {one for one, _ in kinds} == {Call, str}
    assert {is_marked for _, is_marked in kinds} == {False} | {mark is not None}
