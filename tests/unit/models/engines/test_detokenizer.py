"""How the text of a streamed row becomes certain, token by token, and what that costs."""

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from models.engines.jobs import Row, RowJob
from models.engines.sampling import row_uniforms
from models.engines.streaming import new_tokens
from models.engines.tags import Tags
from models.engines.tokenization import Detokenizer, encode_answer_forms, encode_prompt
from models.records import GenerationRequest, GivenAnswer, SamplingParams, bytes_spelt
from tests.tiny_models import byte_tokenizer, random_model
from tests.unit.models.engines.tiny_engines import engine_of, request_for, running

pytestmark = pytest.mark.anyio

TOKENIZER = byte_tokenizer()
EOS = 1


class Counting(Detokenizer):
    """Remembers how many tokens it was asked to decode."""

    def __init__(self):
        super().__init__(TOKENIZER, frozenset({EOS}))
        self.sizes = []

    def text(self, token_ids):
        self.sizes.append(len(token_ids))
        return super().text(token_ids)


def row_of(sampling, **fields):
    """An answer that is streamed."""
    request = GenerationRequest("a", sampling=sampling)
    uniforms = row_uniforms(0, 0)
    job = RowJob(
        request,
        True,
        prompt_ids=[3],
        final_length=1 + sampling.max_new_tokens,
        seed=0,
        uniforms=uniforms,
    )
    return Row(job, 0, frozenset(), **fields)


def streamed(text, stop=()):
    """The pieces of a text that a row writes byte by byte, and who decoded them."""
    detokenizer = Counting()
    row = row_of(SamplingParams(stop=stop, max_new_tokens=10_000))
    pieces = []
    for token in [*TOKENIZER.encode(text, add_special_tokens=False), EOS]:
        row.token_ids.append(token)
        detokenizer.finish(row)
        [told] = new_tokens(row, detokenizer)
        pieces.append(told.text)
        if row.finish_reason:
            break
    assert "".join(pieces) == row.text
    return pieces, detokenizer


@pytest.mark.parametrize(
    ("text", "stop", "pieces"),
    [
        ("aé!", (), ["a", "", "é", "!", ""]),
        ("a🙂b", (), ["a", "", "", "", "🙂", "b", ""]),
        ("a\ufffdb", (), ["a", "", "", "", "\ufffdb", ""]),
        ("ab\n\nc", ("\n\n",), ["a", "b", "", ""]),
        ("a\nb", ("\n\n",), ["a", "", "\nb", ""]),
        ("é\n", ("\n\n",), ["", "é", "", "\n"]),
        ("", (), [""]),
    ],
    ids=[
        "two bytes",
        "four bytes",
        "a real replacement",
        "stopped",
        "not stopped",
        "held",
        "empty",
    ],
)
def test_text_is_told_once_nothing_can_change_it(text, stop, pieces):
    assert streamed(text, stop)[0] == pieces


@pytest.mark.parametrize("text", ["</think>\n7", "<think>hm</think>\n7"])
def test_a_text_that_begins_with_a_tag_is_a_reasoning_and_an_answer(text):
    tags = Tags("<think>", "</think>")
    detokenizer = Detokenizer(TOKENIZER, frozenset({EOS}), tags)
    row = row_of(SamplingParams(max_new_tokens=100), stage="undecided")
    for token in [*TOKENIZER.encode(text, add_special_tokens=False), EOS]:
        row.token_ids.append(token)
        if row.stage != "answer":
            detokenizer.find_answer(row, tags)
        detokenizer.finish(row)
    assert (row.text, row.first_of_answer) == ("\n7", len(text) - 2)
    assert detokenizer.sequence(row).reasoning.is_finished


def test_a_long_text_is_not_decoded_from_its_start_at_each_token():
    text = "Ein längerer Satz. " * 50
    _, detokenizer = streamed(text)
    *steps, whole = detokenizer.sizes
    assert whole == len(text.encode())
    assert max(steps) <= 8


def test_what_stands_before_an_answer_does_not_stop_it_with_its_later_parts():
    sampling = SamplingParams(stop=("\n\n",), max_new_tokens=100)
    row = row_of(sampling, lead="\n")
    detokenizer = Detokenizer(TOKENIZER, frozenset({EOS}))
    for token in [*TOKENIZER.encode("Paris\nis what I think.", add_special_tokens=False), EOS]:
        assert row.finish_reason is None
        row.token_ids.append(token)
        detokenizer.finish(row)
    assert row.text == "\nParis\nis what I think."


async def test_token_texts_join_to_the_text_even_where_a_character_takes_several_tokens():
    request = request_for("Hello", answer=GivenAnswer("über 5 €!"))
    async with running(engine_of(random_model("llama"))) as worker:
        generation = await worker.generate(request)

    texts = generation.answer.token_texts
    assert "".join(texts) == generation.answer.text == "über 5 €!"
    assert texts[:2] == ("", "ü")
    assert texts[-1] == ""
    assert len(texts) == generation.answer.num_tokens == len("über 5 €!".encode()) + 1


def test_token_texts_of_replacement_characters_take_linear_time():
    tokenizer = byte_tokenizer()
    detokenizer, decoded = Detokenizer(tokenizer, frozenset()), []
    text = "\ufffd" * 400 + "é\ufffd"
    token_ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    decode = detokenizer.text

    def counting(ids, **options):
        decoded.append(len(ids))
        return decode(ids, **options)

    detokenizer.text = counting
    texts = detokenizer.token_texts(token_ids)
    assert "".join(texts) == text
    assert sum(decoded) < 50 * len(token_ids)


def test_alternatives_within_a_code_point_have_bytes_of_their_own():
    tokenizer = byte_tokenizer()
    detokenizer = Detokenizer(tokenizer, frozenset())
    ids = tokenizer("é€\ufffd", add_special_tokens=False)["input_ids"]
    row = row_of(SamplingParams(max_new_tokens=9))
    row.job.request = replace(row.job.request, num_tops=20)
    row.tops.append([(one, -1.0) for one in ids])
    row.token_ids = ids[:1]
    told = [text for text, _ in detokenizer.tops(row, 0)]
    assert told[:3] == [r"bytes:\xc3", r"bytes:\xa9", r"bytes:\xe2"]
    assert b"".join(map(bytes_spelt, told)).decode() == "é€\ufffd"


def tokenizer_with_blanks():
    """As those of SentencePiece: a text does not begin with the blank of its first token."""
    bytes_of_any = [f"<0x{byte:02X}>" for byte in range(256)]
    words = ["<s>", "</s>", "[X]", *bytes_of_any, "\u2581", "\u2581a", "a", "b\u2581"]
    vocabulary = {word: i for i, word in enumerate(words)}
    merges = [("\u2581", "a")]
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, byte_fallback=True))
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    undone = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    backend.decoder = decoders.Sequence([*undone, decoders.Strip(" ", 1, 0)])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token="<s>",
        eos_token="</s>",
        additional_special_tokens=["[X]"],
        clean_up_tokenization_spaces=False,
    )


BLANKS = tokenizer_with_blanks()
EURO = [3 + byte for byte in "€".encode()]
PIECES = st.sampled_from([[0], [2], [259], [260], [261], [262], [3 + 97], EURO])


@given(st.lists(PIECES, min_size=1, max_size=12))
@example([[261], [2], [260]])
@example([[261], [259], [2], [260]])
def test_pieces_join_to_the_text_where_some_tokens_have_none(pieces):
    ids = [token for piece in pieces for token in piece]
    detokenizer = Detokenizer(BLANKS, frozenset({EOS}))
    assert "".join(detokenizer.token_texts(ids)) == detokenizer.text(ids)
    row = row_of(SamplingParams(max_new_tokens=10_000))
    told = ""
    for token in [*ids, EOS]:
        row.token_ids.append(token)
        detokenizer.finish(row)
        told += new_tokens(row, detokenizer)[0].text
        assert detokenizer.text(ids).startswith(told)
    assert told == row.text == detokenizer.text(ids)


@pytest.mark.parametrize("before", [[260], [3 + 97], EURO, [*EURO, *EURO], [2], [260, 2]])
def test_an_alternative_keeps_its_blank_whatever_stands_before_it(before):
    detokenizer = Detokenizer(BLANKS, frozenset({EOS}))
    row = row_of(SamplingParams(max_new_tokens=9))
    row.job.request = replace(row.job.request, num_tops=2)
    row.token_ids = [261, *before]
    row.tops = [[(260, -1.0), (261, -2.0)]] * 9
    assert detokenizer.tops(row, len(row.token_ids)) == ((" a", -1.0), ("a", -2.0))


@pytest.mark.parametrize(
    ("prompt", "text", "forms"),
    [
        ("[X]", "a", {"literal": ("a",), "blank_led": ("\u2581a",)}),
        ("[X]", " a", {"literal": ("\u2581a",)}),
        ("[X]", "\na", {"literal": ("<0x0A>", "a")}),
        ("a\n", "a", {"literal": ("a",)}),
        ("a\n", " aa", {"literal": ("\u2581a", "a")}),
    ],
)
def test_a_given_answer_has_no_blank_that_it_does_not_have(prompt, text, forms):
    found = encode_answer_forms(BLANKS, BLANKS(prompt)["input_ids"], text, None)
    assert {form: tuple(BLANKS.convert_ids_to_tokens(ids)) for form, ids in found.items()} == forms


def test_a_message_has_no_blank_behind_a_token_that_it_spells_out():
    tokenizer = tokenizer_with_blanks()
    tokenizer.chat_template = "{{ messages[0].content }}"
    messages = ({"role": "user", "content": "aa[X]a"},)
    ids = encode_prompt(tokenizer, GenerationRequest(messages=messages))
    spelt = [f"<0x{byte:02X}>" for byte in b"[X]"]
    assert tokenizer.convert_ids_to_tokens(ids) == ["\u2581a", "a", *spelt, "a"]
