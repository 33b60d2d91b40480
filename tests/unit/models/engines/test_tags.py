import pytest

from models.engines.reasoning import opens_reasoning
from models.engines.tags import HARMONY, KNOWN_TAGS, Tags, recognise
from models.records import GenerationRequest, Reasoning

THINK = Tags("<think>", "</think>")


@pytest.mark.parametrize(
    ("texts", "opened", "is_finished", "thoughts", "answer"),
    [
        (["hm", "</think>", "7"], False, None, None, "hm</think>7"),
        (["hm", "</think>", "7"], True, True, "hm", "7"),
        (["\n", "</think>", "7"], False, True, "", "7"),
        (["7", " <think>", "hm", "</think>"], False, None, None, "7 <think>hm</think>"),
        (["<think>", "</think>"], False, True, "", ""),
        (["<think>", "<think>", "a", "</think>", "b", "</think>", "7"], False, True,
         "<think>a", "b</think>7"),
        (["<think>", "a", "</think>", "<think>", "7"], False, True, "a", "<think>7"),
        (["<think>", "a", "</think"], False, False, "a</think", ""),
        (["<th", "ink>", "a", "</th", "ink>7"], False, True, "a", "7"),
        ([" \n", "<think>", "a", "</think>", "7"], False, True, "a", "7"),
        (["<think>", "a", "</think>", "7"], True, True, "a", "7"),
        ([], False, None, None, ""),
        ([], True, False, "", ""),
    ],
    ids=["end tag alone is text", "opened by the prompt",
         "the end tag first", "tags inside an answer are text",
         "nothing thought and nothing said", "nested tags", "a tag in the answer is text",
         "half an end tag", "tags of several pieces", "white space first",
         "opened and begun again", "nothing", "nothing behind an open tag"],
)  # fmt: skip
def test_a_generation_is_parted(texts, opened, is_finished, thoughts, answer):
    found, said = THINK.part(texts, opened=opened)

    assert said == answer
    assert (found and found.is_finished, found and found.text) == (is_finished, thoughts)


def test_without_a_token_behind_the_end_tag_it_is_unfinished():
    texts = ["<think>", "a", "</think> 7"]

    assert THINK.part(texts, ended=False) == (Reasoning("a", 3, False), "")
    assert THINK.part(texts, ended=True) == (Reasoning("a", 3, True), " 7")


def test_a_reasoning_of_a_hundred_thousand_tokens_is_parted():
    texts = ["<think>", *[" <think> </thin"] * 100_000, "k7>"]

    found, said = THINK.part(texts)

    assert (found.is_finished, found.num_tokens, said) == (False, len(texts), "")
    assert THINK.part([*texts, "</think>", "7"])[1] == "7"


def test_a_text_of_blanks_is_parted_as_soon_as_one_of_words():
    for blanks in (" " * 200_000, "\n" * 200_000):  # from each of which one could look to the end
        assert Tags.known_parts([f"Hm.{blanks}"], opened=True)[0].text == "Hm."


@pytest.mark.parametrize(
    ("texts", "thoughts"),
    [
        (["<|channel|>", "analysis", "<|message|>", "hm", "<|end|>", "<|start|>", "assistant",
          "<|channel|>", "final", "<|message|>", "7"], "hm"),
        (["<|channel|>", "final", "<|message|>", "7"], ""),
    ],
    ids=["thoughts first", "the final channel at once"],
)  # fmt: skip
def test_harmony_answers_in_its_final_channel(texts, thoughts):
    assert HARMONY.part(texts) == (Reasoning(thoughts, len(texts) - 1, True), "7")


def test_harmony_without_its_final_channel_is_unfinished():
    texts = ["<|channel|>", "commentary to=f", "<|message|>", "{}", "<|call|>"]

    found, _ = HARMONY.part(texts)
    assert not found.is_finished


@pytest.mark.parametrize("tags", KNOWN_TAGS, ids=lambda tags: tags.start)
def test_tags_are_recognised_by_the_template_or_by_the_vocabulary(tags):
    assert recognise(f"{{{{ m.content.split('{tags.end}')[-1] }}}}", set()) == tags
    assert recognise(None, {"<s>", tags.start, tags.end}) == tags
    assert recognise("", {tags.start}) is None


def test_the_template_counts_more_than_tokens_that_may_be_unused():
    assert recognise("[/THINK]", {"<think>", "</think>"}).start == "[THINK]"


@pytest.mark.parametrize("start", ["<thought>", "<my_think>", "<|thinking|>", "<Reasoning>"])
def test_the_end_tag_that_a_template_drops_thoughts_by_is_known_by_its_name(start):
    end = start.replace("<|", "<|/") if "|" in start else start.replace("<", "</")
    template = f"{{{{ m.content.split('{end}')[-1] }}}}<|assistant|>{start}"
    assert recognise(template, set()) == Tags(start, end)
    assert recognise(f"<|assistant|>{start}", set()) is None


def test_harmony_is_recognised_by_its_tokens():
    tokens = {"<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|return|>"}

    assert recognise("<|channel|>analysis", tokens) == HARMONY


def test_a_model_that_does_not_reason_has_no_tags():
    assert recognise("{{ messages[0].content }}", {"<s>", "</s>"}) is None
    assert recognise(None, set()) is None


@pytest.mark.parametrize(
    ("with_prompt", "without", "opened"),
    [
        ("Hi<|a|><think>\n", "Hi", True),
        ("Hi<|a|>", "Hi", False),
        ("Hi<|a|><think>\n\n</think>\n\n", "Hi", False),
        ("I say <think>", "I say <think>", False),
        ("I say <think>\n", "I say <think>", False),
        ("I say <think>", "I say <think></s>", False),
        ("I say <think><|a|>", "I say <think>", False),
        ("I say <think><|a|><think>", "I say <think>", True),
    ],
    ids=["opened", "left to the model", "shut at once", "the user's tag", "and a line",
         "and an end", "and a role", "both"],
)  # fmt: skip
def test_only_the_templates_own_tag_opens_a_reasoning(with_prompt, without, opened):
    class Template:
        def apply_chat_template(self, messages, *, add_generation_prompt, **options):
            return with_prompt if add_generation_prompt else without

    chat = ({"role": "user", "content": "I say <think>"},)
    request = GenerationRequest(messages=chat)
    assert opens_reasoning(Template(), request, THINK) is opened
