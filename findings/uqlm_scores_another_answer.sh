#!/usr/bin/env bash
# UQLM 0.6.7, `BlackBoxUQ.score(responses, sampled_responses)`: with "semantic_negentropy", which is among the scorers
# by default, the scores are not those of the responses that were given. The likeliest of all texts takes the place of
# each, in the caller's own lists, too, and every other scorer is of that one. So a wrong answer gets the confidence of
# the right one that most samples say, and "exact_match" depends on which scorers are named beside it. `use_best=False`
# leaves the answer alone. Here is an NLI model without weights, by which other words contradict.
#   seen: 'Rome.' beside four of 'Paris.': exact_match alone 0.0 of 'Rome.'; beside semantic_negentropy 0.75 of 'Paris.'
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q "uqlm==0.6.7" "transformers==4.57.6" "numpy==1.26.4" "pyarrow==21.0.0"
HF_HUB_OFFLINE=1 HF_HOME="$folder/home" "$folder/venv/bin/python" - "$folder/nli" <<'PYTHON'
import sys
from pathlib import Path

import torch
from transformers import BertConfig, BertForSequenceClassification, BertTokenizer
from uqlm import BlackBoxUQ

folder = Path(sys.argv[1])
folder.mkdir()
words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "paris", "rome", "."]
(folder / "vocab.txt").write_text("\n".join(words))
BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
config = BertConfig(
    vocab_size=len(words), hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
    intermediate_size=8, id2label={0: "CONTRADICTION", 1: "NEUTRAL", 2: "ENTAILMENT"},
)
model = BertForSequenceClassification(config)
with torch.no_grad():
    model.classifier.weight.zero_()
    model.classifier.bias.copy_(torch.tensor([9.0, 0.0, 0.0]))
model.save_pretrained(folder)


def scored(*names):
    answers, samples = ["Rome."], [["Paris."] * 4]
    scorer = BlackBoxUQ(scorers=list(names), nli_model_name=str(folder), device="cpu")
    [score] = scorer.score(answers, samples, show_progress_bars=False).data["exact_match"]
    return score, answers


alone, beside = scored("exact_match"), scored("semantic_negentropy", "exact_match")
print(f"'Rome.' beside four of 'Paris.': exact_match alone {alone[0]} of {alone[1][0]!r};", end=" ")
print(f"beside semantic_negentropy {beside[0]} of {beside[1][0]!r}")
assert alone == (0.0, ["Rome."]), "UQLM has changed"
assert beside == (0.75, ["Paris."]), "UQLM has changed"
PYTHON
