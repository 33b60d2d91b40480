"""Writes a model as the repository ships it: float16 on disk, float32 when loaded, mode 0644."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformers import (
    BertForSequenceClassification,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

CARD = "card.json"


def save(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, directory: Path) -> None:
    """Model, configuration and tokenizer, ready for `from_pretrained(directory)`."""
    (directory / CARD).unlink(missing_ok=True)  # it describes the weights replaced here
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    weights = directory / "model.safetensors"
    # The configuration keeps dtype float32, so that loading converts back: half the size on disk,
    # and a CPU never computes in float16.
    halved = {name: tensor.to(torch.float16) for name, tensor in load_file(weights).items()}
    save_file(halved, weights, metadata={"format": "pt"})
    _name_the_old_class(directory / "tokenizer_config.json")
    readable(directory)


def _name_the_old_class(tokenizer_config: Path) -> None:
    """Writes the old name of the tokenizer's class; engines on transformers 4 know no other."""
    config = json.loads(tokenizer_config.read_text(encoding="utf-8"))
    for key in ("backend", "is_local", "local_files_only"):
        config.pop(key, None)
    config["tokenizer_class"] = "PreTrainedTokenizerFast"
    tokenizer_config.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def write_card(directory: Path, card: dict[str, Any]) -> None:
    """Merges into the card: training writes how it was made, evaluation adds how good it is."""
    path = directory / CARD
    previous = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    text = json.dumps(previous | card, indent=2, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
    readable(directory)


def readable(directory: Path) -> None:
    """Sets mode 0644, so that a container with another uid can read the files.

    `save_pretrained` writes weights with mode 0600.
    """
    for file in directory.iterdir():
        if file.is_file():
            file.chmod(0o644)


def load_language_model(directory: Path) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """Model and tokenizer, in float32 and evaluation mode."""
    return (
        LlamaForCausalLM.from_pretrained(directory),
        PreTrainedTokenizerFast.from_pretrained(directory),
    )


def load_cross_encoder(
    directory: Path,
) -> tuple[BertForSequenceClassification, PreTrainedTokenizerFast]:
    """Model and tokenizer, in float32."""
    return (
        BertForSequenceClassification.from_pretrained(directory),
        PreTrainedTokenizerFast.from_pretrained(directory),
    )
