"""Variables of a chat template: which it reads, and which a client may set."""

import pytest

from models.engines.template_variables import check_variables, variables_of
from models.errors import InvalidRequest
from tests.tiny_models import byte_tokenizer

EFFORT = "{{ messages[0].content }}{% if reasoning_effort is not defined %}"
EFFORT += "{% set reasoning_effort = 'medium' %}{% endif %}{{ reasoning_effort }}"
THINKING = "{% if enable_thinking is defined and enable_thinking is false %}a{% endif %}"
# As Qwen3 and GLM set `content`, and others set a default.
SETTING = (
    "{% macro shown(content) %}{{ content }}{% endmacro %}{% set mode = mode or 'a' %}"
    "{% for m in messages %}{% if m.content is string %}{% set content = m.content %}{% endif %}"
    "{{ shown(content) }}{% endfor %}{{ mode }}"
)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (EFFORT, {"messages", "reasoning_effort"}),
        (THINKING, {"enable_thinking"}),
        ("{% macro f(a) %}{{ a }}{{ deep }}{% endmacro %}{{ f(1) }}", {"deep"}),
        ("{% set own = 1 %}{{ own }}{% for one in own %}{{ one }}{% endfor %}", set()),
        ("{% generation %}{{ x }}{% endgeneration %}", {"x"}),
        ("{% for a in b %}{% break %}{% endfor %}", {"b"}),
        (SETTING, {"messages", "mode"}),
        ("{% if extra %}{% set tools = extra %}{% endif %}{{ tools }}", {"extra", "tools"}),
    ],
    ids=[
        "with a default",
        "in a condition",
        "in a macro",
        "its own",
        "in a mark",
        "in a loop",
        "set on the way",
        "tools from elsewhere",
    ],
)
def test_a_template_reads_what_it_does_not_set_itself(template, expected):
    assert variables_of(template) == expected


def test_of_what_is_no_template_nothing_is_known_and_rendering_will_tell():
    assert variables_of("{% if %}") is None
    check_variables(byte_tokenizer(chat_template="{% if %}"), ["anything"])


def test_a_variable_that_the_template_reads_passes():
    check_variables(byte_tokenizer(chat_template=EFFORT), ["reasoning_effort"])
    check_variables(byte_tokenizer(chat_template=THINKING), ["enable_thinking"])


def test_an_effort_that_the_template_does_not_read_is_refused_by_its_name():
    with pytest.raises(InvalidRequest) as error:
        check_variables(byte_tokenizer(chat_template=THINKING), ["reasoning_effort"])

    assert error.value.field == "reasoning_effort"
    assert error.value.message == "the chat template of this model does not read reasoning_effort"


@pytest.mark.parametrize(
    ("template", "read"), [(THINKING, "enable_thinking"), ("{{ messages }}", "none")]
)
def test_another_one_is_refused_with_those_that_it_reads_and_without_a_word_of_the_client(
    template, read
):
    with pytest.raises(InvalidRequest) as error:
        check_variables(byte_tokenizer(chat_template=template), ["a secret"])

    assert error.value.field == "chat_template_kwargs"
    assert error.value.message.endswith(f"those that it reads: {read}")
    assert "secret" not in error.value.message


@pytest.mark.parametrize("name", ["raise_exception", "range", "namespace", "strftime_now"])
def test_functions_of_a_template_cannot_be_replaced(name):
    tokenizer = byte_tokenizer(chat_template=f"{{{{ {name}(1) }}}}")
    with pytest.raises(InvalidRequest, match=f"reserved names: {name}"):
        check_variables(tokenizer, [name])
