"""Whether a checkpoint can be loaded, told before the libraries that load it are imported."""

import functools
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from huggingface_hub import HfApi, try_to_load_from_cache
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from models.errors import ModelNotLoaded
from models.locations import is_local

# What a checkpoint must have been trained for.
Head = Literal["causal", "classifier"]

_HUB_TIMEOUT_S = 4.0
_CONFIG = "config.json"
_TOKENIZER_FILES = frozenset(
    {
        "tokenizer.json",
        "tokenizer_config.json",
        "tokenizer.model",
        "spiece.model",
        "sentencepiece.bpe.model",
        "vocab.json",
        "vocab.txt",
        "tekken.json",
    }
)
# Names of files that say what a checkpoint is that holds no safetensors, or is no model by itself.
_OTHER_KINDS = (
    (".gguf", "GGUF"),
    (".onnx", "ONNX"),
    (".h5", "weights of TensorFlow"),
    (".msgpack", "weights of Flax"),
    (".npz", "weights of numpy"),
    ("adapter_config.json", "an adapter without its model"),
)
_CLASSIFIER = "ForSequenceClassification"
_NOT_CAUSAL = (
    _CLASSIFIER,
    "ForMaskedLM",
    "ForTokenClassification",
    "ForQuestionAnswering",
    "ForMultipleChoice",
    "ForPreTraining",
)


def check_checkpoint(path: str, revision: str | None, head: Head) -> bool:
    """Refuse what cannot be loaded, before a library takes long to say so in many lines.

    Returns whether only what is on this machine may be asked, because the hub cannot be.

    Args:
        path: folder or hub id.
        revision: of a hub model.
        head: what the checkpoint must have been trained for.

    Raises:
        ModelNotLoaded: says what is missing, and the remedy.
    """
    if is_local(path) or Path(path).suffix in dict(_OTHER_KINDS):
        _check_folder(Path(path), head)
        return False
    return _check_hub(path, revision, head)


@functools.cache
def _check_hub(path: str, revision: str | None, head: Head) -> bool:
    try:
        info = HfApi().model_info(path, revision=revision, timeout=_HUB_TIMEOUT_S)
    except GatedRepoError:
        raise ModelNotLoaded("gated on the hub: accept its terms there, and set HF_TOKEN") from None
    except RevisionNotFoundError:
        raise ModelNotLoaded(f"has no revision {revision!r} on the hub") from None
    except (RepositoryNotFoundError, HFValidationError):
        message = "neither a folder here nor a model on the hub; a private one needs HF_TOKEN"
        raise ModelNotLoaded(message) from None
    except Exception as error:  # of the network, in as many classes as there are ways to fail
        if isinstance(error, HfHubHTTPError) and error.response.status_code < 500:
            return False  # a mirror that knows no such page, and may have the files all the same
        if isinstance(try_to_load_from_cache(path, _CONFIG, revision=revision), str):
            return True
        raise ModelNotLoaded(
            f"the hub cannot be reached ({type(error).__name__}), and no copy is on this machine: "
            "name a folder, or fill the cache of HF_HOME while there is a network"
        ) from None
    files = {file.rfilename for file in info.siblings or ()}
    _check_files(files, head)
    _check_head((info.config or {}).get("architectures"), head)
    return False


def _check_folder(folder: Path, head: Head) -> None:
    _check_kind({folder.name}, head)
    if folder.is_file():
        raise ModelNotLoaded("is a file: name the folder of the checkpoint that it belongs to")
    if not folder.is_dir():
        message = f"no such folder: {folder.absolute()}; name one that holds a checkpoint"
        raise ModelNotLoaded(f"{message}, or a hub id")
    _check_files(set(os.listdir(folder)), head)
    config = json.loads((folder / _CONFIG).read_text(encoding="utf-8"))
    _check_head(config.get("architectures"), head)


def read_elsewhere(head: Head) -> str:
    """The two ways to serve a checkpoint that is not read here."""
    by_server = "llama-server for GGUF, or vLLM) serve it: COCOA_GENERATION__URL and __API=openai"
    if head == "classifier":
        by_server = "text-embeddings-inference, or vLLM) serve it: its __URL and __API"
    return (
        "name the safetensors checkpoint that it was made of, or have a server that reads it "
        f"({by_server}"
    )


def _check_kind(files: set[str], head: Head) -> None:
    for ending, kind in _OTHER_KINDS:
        if any(name.lower().endswith(ending) for name in files):
            raise ModelNotLoaded(f"is {kind}, which is not read here: {read_elsewhere(head)}")


def _check_files(files: set[str], head: Head) -> None:
    if _CONFIG not in files or not any(name.endswith(".safetensors") for name in files):
        _check_kind(files, head)
    if _CONFIG not in files:
        raise ModelNotLoaded(f"holds no {_CONFIG}: name what `save_pretrained` wrote")
    if not any(name.endswith(".safetensors") for name in files):
        if any(name.endswith((".bin", ".pt", ".pth", ".ckpt")) for name in files):
            raise ModelNotLoaded(
                "holds pickled weights only, which can run code and are never loaded: load it "
                "elsewhere and write it with `save_pretrained`, which writes safetensors"
            )
        raise ModelNotLoaded("holds no weights: a .safetensors file is needed")
    if files.isdisjoint(_TOKENIZER_FILES):
        raise ModelNotLoaded("holds no tokenizer: write it there with `tokenizer.save_pretrained`")


def _check_head(architectures: Sequence[str] | None, head: Head) -> None:
    """Libraries would put a random head in place of a missing one."""
    if not architectures:
        return
    if head == "classifier":
        fits = any(name.endswith(_CLASSIFIER) for name in architectures)
        wanted = "a classifier of pairs"
    else:
        fits = not all(name.endswith(_NOT_CAUSAL) for name in architectures)
        wanted = "a causal language model"
    if not fits:
        raise ModelNotLoaded(f"is a {', '.join(architectures)}, where {wanted} is needed")
