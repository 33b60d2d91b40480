"""PairClassifier: what a pair is cut to, and what cutting it costs."""

from itertools import chain
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tokenizers import processors
from transformers import AutoTokenizer

from models.embedded import CROSS_ENCODER_DIR
from models.similarity.classifier import PairClassifier, forward_passes

MAX_LENGTH = 32
WORD = "paris "


class Reader(torch.nn.Module):
    """A model that remembers its inputs and gives each row the number of its tokens."""

    config = SimpleNamespace(num_labels=1)
    device = "cpu"

    def __init__(self):
        super().__init__()
        self.rows = []

    def forward(self, **inputs):
        lengths = inputs["attention_mask"].sum(dim=1)
        for row, length in enumerate(lengths.tolist()):
            self.rows.append({name: column[row, :length] for name, column in inputs.items()})
        return SimpleNamespace(logits=lengths[:, None].float())


class Counting:
    """A tokenizer that counts the pieces that it makes of texts."""

    def __init__(self, tokenizer):
        self._tokenizer = tokenizer
        self.num_pieces = 0

    def __getattr__(self, name):
        return getattr(self._tokenizer, name)

    def __call__(self, *texts, **options):
        encoded = self._tokenizer(*texts, **options)
        self.num_pieces += sum(1 + len(one.overflowing) for one in encoded.encodings)
        return encoded


def new_tokenizer(**options):
    return AutoTokenizer.from_pretrained(CROSS_ENCODER_DIR, **options)


def roberta_like():
    """As RoBERTa's: two separators between the texts, no types."""
    tokenizer = new_tokenizer(model_input_names=["input_ids", "attention_mask"])
    tokenizer.backend_tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", tokenizer.convert_tokens_to_ids("</s>")),
        ("<s>", tokenizer.convert_tokens_to_ids("<s>")),
    )
    return tokenizer


TOKENIZERS = {
    "BERT's frame": new_tokenizer,
    "RoBERTa's frame": roberta_like,
    "cut on the left": lambda: new_tokenizer(truncation_side="left"),
}
# id: the texts of one pair, in words
PAIRS = {
    "two short texts": (2, 3),
    "an empty text": (0, 3),
    "two that just fit": (4, 5),
    "a long first text": (100, 3),
    "a long second text": (3, 100),
    "two long texts": (100, 90),
    "two equally long texts": (50, 50),
    "a text as long as the model's input": (0, 200),
}


@pytest.mark.parametrize("new", TOKENIZERS.values(), ids=TOKENIZERS)
@pytest.mark.parametrize(("num_a", "num_b"), PAIRS.values(), ids=PAIRS)
@pytest.mark.parametrize("max_length", [MAX_LENGTH, MAX_LENGTH - 1])
def test_the_model_reads_what_the_tokenizer_itself_would_leave_of_a_pair(
    new, num_a, num_b, max_length
):
    tokenizer, reader = new(), Reader()
    pair = (WORD * num_a + "rome", WORD * num_b)
    _, truncated = PairClassifier(reader, tokenizer, max_length).logits([pair])

    expected = tokenizer(
        *[[text] for text in pair], truncation="longest_first", max_length=max_length
    )
    assert reader.rows[0].keys() == expected.keys()
    for name, column in expected.items():
        assert reader.rows[0][name].tolist() == column[0]
    whole = tokenizer(*[[text] for text in pair], verbose=False)["input_ids"][0]
    assert truncated.tolist() == [len(whole) > max_length]


def test_pairs_of_every_length_around_the_limit_are_flagged_where_they_exceed_it():
    tokenizer = new_tokenizer()
    pairs = [("a " * num_a, "b " * num_b) for num_a in range(12, 18) for num_b in range(12, 18)]
    lengths, truncated = PairClassifier(Reader(), tokenizer, MAX_LENGTH).logits(pairs)

    whole = np.array([len(tokenizer(*pair)["input_ids"]) for pair in pairs])
    assert lengths[:, 0].tolist() == np.minimum(whole, MAX_LENGTH).tolist()
    assert truncated.tolist() == (whole > MAX_LENGTH).tolist()


@pytest.mark.parametrize(
    ("new", "num_types", "warns"),
    [(new_tokenizer, 2, False), (roberta_like, 2, True), (roberta_like, 1, False)],
    ids=["types are given", "types are wanted and not given", "types are not wanted"],
)
def test_a_model_of_token_types_whose_tokenizer_gives_none_is_warned_of(
    caplog, monkeypatch, new, num_types, warns
):
    config = SimpleNamespace(num_labels=1, type_vocab_size=num_types, _name_or_path="/models/mine")
    monkeypatch.setattr(Reader, "config", config)
    PairClassifier(Reader(), new(), MAX_LENGTH)

    messages = [record.getMessage() for record in caplog.records]
    assert [name for name in messages if "token_type_ids" in name] == messages
    assert len(messages) == warns
    assert all("the pair model mine tells" in message for message in messages)


def test_long_texts_in_many_pairs_are_tokenised_once_each_and_leave_no_other_pieces():
    tokenizer = Counting(new_tokenizer())
    classifier = PairClassifier(Reader(), tokenizer, MAX_LENGTH)
    texts = [WORD * 3000 + str(number) for number in range(5)]
    tokenizer.num_pieces = 0
    classifier.logits([(a, b) for a in texts for b in texts])

    assert tokenizer.num_pieces == len(texts)


def test_a_tokenizer_that_changes_texts_in_a_pair_is_refused():
    tokenizer = new_tokenizer()
    separator = ("</s>", tokenizer.convert_tokens_to_ids("</s>"))
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="$A", pair="$B </s> $A", special_tokens=[separator]
    )
    with pytest.raises(ValueError, match="changes texts"):
        PairClassifier(Reader(), tokenizer, MAX_LENGTH)


@pytest.mark.parametrize("most_tokens", [5, 30, 1e9])
@pytest.mark.parametrize("most", [0, 5, 40, 1e9])
def test_every_row_goes_through_once_beside_rows_of_like_length(most, most_tokens):
    num_tokens = 30 * [7, 90, 8, 7, 12, 80, 81, 7, 300, 9]
    passes = list(forward_passes(num_tokens, most, most_tokens))

    assert sorted(chain(*passes)) == list(range(len(num_tokens)))
    for rows in passes:
        lengths = [num_tokens[row] for row in rows]
        assert len(rows) <= 64
        assert len(rows) == 1 or max(lengths) * len(rows) <= most_tokens
        assert sum(max(lengths) - one for one in lengths) <= most
