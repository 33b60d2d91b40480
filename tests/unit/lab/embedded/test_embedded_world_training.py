"""A few steps of a tiny model of the world, its vocabulary and its chat template."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from cocoa_lab.embedded.language_model import LanguageModelShape, new_language_model
from cocoa_lab.embedded.training import Schedule
from cocoa_lab.embedded.weights import load_language_model
from cocoa_lab.embedded.world.__main__ import app
from cocoa_lab.embedded.world.calls import call_document
from cocoa_lab.embedded.world.chat import CONTEXT_TOKENS, TAGS, encode, prompt_text
from cocoa_lab.embedded.world.document import Document, user, with_thoughts
from cocoa_lab.embedded.world.exposures import exposures, write_exposures
from cocoa_lab.embedded.world.pen import Pen
from cocoa_lab.embedded.world.replies import greedy_replies
from cocoa_lab.embedded.world.training import (
    MICRO_BATCH_TOKENS,
    MIN_FILLED,
    RECIPES,
    Recipe,
    budgeted,
    tokenizer_of,
    train_world_model,
)
from models.units.reasoning import KNOWN_TAGS, is_opened, recognise

RECIPE = Recipe(
    folder="tiny",
    seed=0,
    shape=LanguageModelShape(hidden=32, layers=2, heads=2, feed_forward=64),
    vocabulary=600,
    schedule=Schedule(steps=8, checkpoint_every=3, log_every=4),
    counts={"short": 6, "paragraph": 3, "json": 2, "call": 2, "reasoning": 2},
)


@pytest.fixture(scope="module")
def tokenizer():
    return tokenizer_of(RECIPE)


@pytest.fixture(scope="module")
def trained(tokenizer, tmp_path_factory):
    out = tmp_path_factory.mktemp("whole")
    model, losses = train_world_model(RECIPE, tokenizer, out)
    return model, losses, out


def test_eight_steps_lower_the_loss_and_the_log_tells_it_by_kind(trained):
    _, losses, out = trained
    lines = [json.loads(line) for line in (out / "tiny.log.jsonl").read_text().splitlines()]

    assert sum(losses[-3:]) < sum(losses[:3])
    assert [line["step"] for line in lines] == [4, 8]
    assert set(lines[0]["loss"]) == set(RECIPE.counts)
    assert all(line["tokens"] > 1000 for line in lines)
    for kind in RECIPE.counts:
        assert lines[1]["loss"][kind] < lines[0]["loss"][kind]


def test_micro_batches_hold_every_example_once_and_keep_to_their_size(tokenizer):
    examples = []
    for number in range(90):
        document = Document("json", [user("What? " * number)], "That.")
        examples.append((str(number), encode(tokenizer, [document])[0]))

    batches = budgeted(examples)

    assert sorted(int(kind) for batch in batches for kind, _ in batch) == list(range(90))
    assert len(batches) > 2
    for batch in batches:
        lengths = [len(one.ids) for _, one in batch]
        assert len(batch) * max(lengths) <= MICRO_BATCH_TOKENS
        assert min(lengths) >= MIN_FILLED * max(lengths)


def test_a_reply_follows_the_chat_or_the_plain_prompt(tokenizer):
    chat = Document("short", [user("What is 1 + 1?")], "2")
    plain = Document("short", [user("What is 1 + 1?")], "2", plain=True)
    [of_chat, of_plain] = encode(tokenizer, [chat, plain])

    assert tokenizer.decode(of_chat.ids) == (
        "<s><|im_start|>user\nWhat is 1 + 1?<|im_end|>\n<|im_start|>assistant\n2<|im_end|>"
    )
    assert tokenizer.decode(of_chat.ids[of_chat.answer_start :]) == "2<|im_end|>"
    assert tokenizer.decode(of_plain.ids) == "<s>What is 1 + 1? 2<|im_end|>"
    assert of_plain.ids[: of_plain.answer_start] == tokenizer("What is 1 + 1?")["input_ids"]


def test_digits_stand_one_by_one_and_tags_are_tokens_of_their_own(tokenizer):
    assert tokenizer.tokenize("1987") == ["1", "9", "8", "7"]
    for tag in TAGS:
        [number] = tokenizer(tag, add_special_tokens=False)["input_ids"]
        assert tokenizer.decode([number], skip_special_tokens=True) == tag


def test_its_thoughts_are_recognised_and_can_be_shut(tokenizer):
    document = Document("reasoning", [user("1 + 2?")], with_thoughts("1 + 2 = 3.", "3"))
    shut = Document("reasoning", [user("1 + 2?")], "3", thinking=False)
    think = KNOWN_TAGS[0]

    assert recognise(tokenizer.chat_template, tokenizer.get_added_vocab()) == think
    opened = prompt_text(tokenizer, document)
    assert not is_opened(opened, opened.removesuffix("<|im_start|>assistant\n"), think)
    assert prompt_text(tokenizer, shut) == f"{opened}<think>\n\n</think>\n\n"


def test_earlier_turns_lose_their_thoughts_and_keep_their_calls_and_results(tokenizer):
    call = {"name": "get_time", "arguments": {"city": "Lima"}}
    turns = [
        {"role": "system", "content": "Be helpful."},
        user("What is 1 + 2?"),
        {"role": "assistant", "content": with_thoughts("1 + 2 = 3.", "3")},
        user("How late is it in Lima?"),
        {"role": "assistant", "content": "", "tool_calls": [{"function": call}]},
        {"role": "tool", "content": '{"time": "9:05"}'},
    ]
    tool = {"type": "function", "function": {"name": "get_time", "parameters": {}}}

    text = prompt_text(tokenizer, Document("call", turns, "It is 9:05.", tools=[tool]))

    assert text == (
        "<s><|im_start|>system\nBe helpful.\n\n<tools>\n"
        '{"name": "get_time", "parameters": {}}\n</tools><|im_end|>\n'
        "<|im_start|>user\nWhat is 1 + 2?<|im_end|>\n<|im_start|>assistant\n3<|im_end|>\n"
        "<|im_start|>user\nHow late is it in Lima?<|im_end|>\n<|im_start|>assistant\n"
        '<tool_call>\n{"name": "get_time", "arguments": {"city": "Lima"}}\n</tool_call><|im_end|>\n'
        '<|im_start|>user\n<tool_response>\n{"time": "9:05"}\n</tool_response><|im_end|>\n'
        "<|im_start|>assistant\n"
    )


def test_calls_in_the_history_read_as_the_replies_that_were_trained(tokenizer):
    documents = [call_document(RECIPE.corpus.knowledge, Pen(f"test:{i}")) for i in range(60)]
    for document in documents:
        if "<tool_call>" not in document.reply:
            continue
        calls = []
        for text in document.reply.split("\n")[1::3]:
            calls.append({"type": "function", "function": json.loads(text)})
        turn = {"role": "assistant", "content": None, "tool_calls": calls}
        told = Document("call", [*document.messages, turn], "", tools=document.tools)
        assert f"assistant\n{document.reply}<|im_end|>\n" in prompt_text(tokenizer, told)


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=list(RECIPES))
def test_both_models_have_a_size_that_serves_and_documents_that_fit_their_context(recipe):
    schedule = replace(recipe.schedule, steps=20)
    shortened = replace(recipe, schedule=schedule, counts={**recipe.counts, "short": 0})
    tokenizer = tokenizer_of(shortened)
    model = new_language_model(tokenizer, recipe.shape, 0, CONTEXT_TOKENS)
    encoded = []
    for step in range(12):
        encoded += encode(tokenizer, shortened.corpus.documents(step))

    assert len(tokenizer) == recipe.vocabulary
    assert 3_000_000 <= model.num_parameters() <= 6_000_000
    assert CONTEXT_TOKENS / 2 < max(len(one.ids) for one in encoded) <= CONTEXT_TOKENS


def test_the_second_model_prefers_the_wordings_that_the_first_uses_least():
    firsts = []
    for backwards in (False, True):
        pens = [Pen(f"test:{i}", backwards=backwards) for i in range(400)]
        firsts.append(sum(pen.choose("abc") == "a" for pen in pens))
    assert firsts[0] > 1.5 * firsts[1]


def test_a_greedy_reply_shows_tags_and_no_end_of_turn(trained, tokenizer):
    model, _, _ = trained
    reply = greedy_replies(model, tokenizer, [Document("short", [user("What is 1 + 1?")], "2")])[0]
    assert "<|im_end|>" not in reply


def test_the_table_of_exposures_counts_what_documents_tell(tmp_path):
    corpus = RECIPE.corpus
    told = exposures(corpus, 8)
    write_exposures(corpus, 8, tmp_path / "table.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "table.jsonl").read_text().splitlines()]

    num_facts = sum(len(document.facts) for step in range(8) for document in corpus.documents(step))
    assert told.total() == num_facts
    assert sum(line["told"] + line.get("rival_told", 0) for line in lines) == num_facts
    assert {line["told"] for line in lines if line["telling"] == "untold"} == {0}
    places = corpus.knowledge.world.places.values()
    assert len(lines) == sum(len(place.facts) for place in places)


def test_the_commands_train_export_and_evaluate(tokenizer, tmp_path, monkeypatch):
    monkeypatch.setitem(RECIPES, "first", RECIPE)
    tokenizer.save_pretrained(tmp_path / "tiny")
    for module in ("world.replies", "answers"):
        monkeypatch.setattr(f"cocoa_lab.embedded.{module}.MAX_NEW_TOKENS", 8)

    def run(*arguments):
        result = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path)])
        assert result.exit_code == 0, result.output
        return result.output

    run("train", "--threads", "1")
    model, loaded = load_language_model(tmp_path / "tiny")
    card = json.loads((tmp_path / "tiny" / "card.json").read_text())
    figures = json.loads(run("evaluate", "--count", "10", "--threads", "1"))

    assert card["steps"] == 8
    assert card["parameters"] == sum(parameter.numel() for parameter in model.parameters())
    assert loaded.chat_template == tokenizer.chat_template
    tasks = {"paragraph", "json", "call", "reasoning", "facts", "arithmetic", "translation"}
    assert set(figures) == tasks
    assert figures["facts"]["prompts"] == 10
    answers = figures["reasoning"].values()
    assert sum(sum(labels.values()) for labels in answers) == 10
