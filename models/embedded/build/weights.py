"""Writes a model as the repository ships it.

Float16 tensors that load as float32, and files that everybody can read.
"""

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
    (directory / CARD).unlink(missing_ok=True)  # it told of other weights
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    weights = directory / "model.safetensors"
    # The configuration keeps dtype float32, so that loading converts back: half the size on disk,
    # no half on a CPU.
    halved = {name: tensor.to(torch.float16) for name, tensor in load_file(weights).items()}
    save_file(halved, weights, metadata={"format": "pt"})
    _name_the_old_class(directory / "tokenizer_config.json")
    readable(directory)


def _name_the_old_class(tokenizer_config: Path) -> None:
    """Undoes the new name that transformers 5 writes: engines on transformers 4 do not know it."""
    config = json.loads(tokenizer_config.read_text(encoding="utf-8"))
    kept = {
        key: value
        for key, value in config.items()
        if key not in {"backend", "is_local", "local_files_only"}
    }
    text = json.dumps(kept | {"tokenizer_class": "PreTrainedTokenizerFast"}, indent=2)
    tokenizer_config.write_text(text + "\n", encoding="utf-8")


def write_card(directory: Path, card: dict[str, Any]) -> None:
    """Merges into the card: training writes how it was made, evaluation adds how good it is."""
    path = directory / CARD
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.write_text(json.dumps(known | card, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    readable(directory)


def readable(directory: Path) -> None:
    """Mode 0644, so that a container with another uid can read the files.

    `save_pretrained` writes weights as 0600.
    """
    for file in directory.iterdir():
        if file.is_file():
            file.chmod(0o644)


def load_language_model(directory: Path) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """In float32; `from_pretrained` leaves it in evaluation mode."""
    return (
        LlamaForCausalLM.from_pretrained(directory),
        PreTrainedTokenizerFast.from_pretrained(directory),
    )


def load_cross_encoder(
    directory: Path,
) -> tuple[BertForSequenceClassification, PreTrainedTokenizerFast]:
    """In float32; serving loads it as sentence-transformers' CrossEncoder instead."""
    return (
        BertForSequenceClassification.from_pretrained(directory),
        PreTrainedTokenizerFast.from_pretrained(directory),
    )
