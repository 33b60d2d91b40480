#!/usr/bin/env bash
# transformers 5: a BERT whose tokenizer_config.json names the class `PreTrainedTokenizerFast`, as a tokenizer that was
# made with `tokenizers` does, gets no `token_type_ids` of a pair any more, though its tokenizer.json has them. Its model
# takes all tokens for those of the first text, so a cross-encoder that was trained on segments scores pairs otherwise
# than under transformers 4. Nothing warns.
#   seen: 4.57.6 [0, 0, 0, 0, 0, 1, 1, 1, 1] -0.406; 5.24.0 None -1.453: the same pair scores 1 apart
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
cat > "$folder/score.py" <<'PYTHON'
import json
import sys
from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import AutoModelForSequenceClassification, AutoTokenizer, BertConfig

folder = Path(sys.argv[1])
if not folder.exists():
    folder.mkdir()
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "paris", "rome", "is", "big"]
    backend = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, "[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    backend.save(str(folder / "tokenizer.json"))
    named = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "[PAD]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(named))
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=16, num_labels=1, initializer_range=0.5,
    )
    AutoModelForSequenceClassification.from_config(config).save_pretrained(folder)
model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
pair = AutoTokenizer.from_pretrained(folder)("paris is big", "rome is big", return_tensors="pt")
with torch.no_grad():
    [[score]] = model(**pair).logits.tolist()
segments = pair.get("token_type_ids")
print(transformers.__version__, segments if segments is None else segments[0].tolist(), score)
PYTHON
export HF_HUB_OFFLINE=1 HF_HOME="$folder/home"
for version in 4.57.6 5.24.0; do
  python3 -m venv "$folder/$version"
  "$folder/$version/bin/pip" install -q "torch==2.13.0" "numpy==2.4.6" "transformers==$version"
  "$folder/$version/bin/python" "$folder/score.py" "$folder/model" 2>> "$folder/log" | tee -a "$folder/seen"
done
python3 - "$folder/seen" <<'PYTHON'
import sys
from pathlib import Path

old, new = Path(sys.argv[1]).read_text().splitlines()
assert "[0, 0, 0, 0, 0, 1, 1, 1, 1]" in old and " None " in new, "transformers has changed"
apart = abs(float(old.split()[-1]) - float(new.split()[-1]))
print(f"the same pair scores {apart:.2g} apart")
assert apart > 0.01, "transformers has changed"
PYTHON
