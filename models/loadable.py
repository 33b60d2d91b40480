"""Checks that a checkpoint can be loaded, before the libraries that load it are imported."""

import functools
import json
import os
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

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

# The task that a checkpoint must have been trained for.
Head = Literal["causal", "classifier", "embedding"]

_HUB_TIMEOUT_S = 4.0
_CONFIG = "config.json"
# The file of sentence-transformers that lists what makes one vector of a text.
_MODULES = "modules.json"
# NVIDIA's ModelOpt writes it, and may name itself in the configuration, too.
_MODELOPT = "hf_quant_config.json"
_TOKENIZER_FILES = {"tokenizer.json", "tokenizer_config.json", "tokenizer.model", "spiece.model"}
_TOKENIZER_FILES |= {"sentencepiece.bpe.model", "vocab.json", "vocab.txt", "tekken.json"}
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
    _CLASSIFIER, "ForMaskedLM", "ForTokenClassification", "ForQuestionAnswering",
    "ForMultipleChoice", "ForPreTraining",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Listed:
    """The listing of a checkpoint, known without loading it."""

    # Their names; None where only a copy of an earlier time is on this machine.
    files: frozenset[str] | None = None
    architectures: tuple[str, ...] = ()  # that its configuration names
    method: str = ""  # by which it is quantised, as its configuration names it; "" for none
    is_known: bool = True  # whether anything is known; else loading it shows


def check_checkpoint(path: str, revision: str | None, head: Head) -> bool:
    """Refuse what cannot be loaded, before a library takes long to say so in many lines.

    Returns True where only this machine can be searched, because the hub does not answer.

    Raises:
        ModelNotLoaded: says what is missing, and the remedy.
    """
    if _is_here(path):
        _check_kind({Path(path).name}, head)
    listed = _listed(path, revision)
    if not listed.is_known:
        return False
    if listed.files is None:
        return True
    _check_files(listed.files, head)
    if listed.method == "modelopt" or (_MODELOPT in listed.files and not listed.method):
        raise ModelNotLoaded(skipped_method("NVIDIA's ModelOpt", head))
    _check_head(listed.architectures, head)
    return False


def is_embedding_model(path: str, revision: str | None) -> bool:
    """True where a checkpoint makes vectors of single texts, and no scores of pairs.

    Raises:
        ModelNotLoaded: it is not there.
    """
    listed = _listed(path, revision)
    if any(name.endswith(_CLASSIFIER) for name in listed.architectures):
        return False
    if listed.files is None:
        return isinstance(try_to_load_from_cache(path, _MODULES, revision=revision), str)
    return _MODULES in listed.files


def _is_here(path: str) -> bool:
    return is_local(path) or Path(path).suffix in dict(_OTHER_KINDS)


def _listed(path: str, revision: str | None) -> _Listed:
    if _is_here(path):
        return _listed_folder(Path(path))
    return _listed_hub(path, revision)


@functools.cache
def _listed_hub(path: str, revision: str | None) -> _Listed:
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
            # A mirror that knows no such page, and may have the files all the same.
            return _Listed(frozenset(), is_known=False)
        if isinstance(try_to_load_from_cache(path, _CONFIG, revision=revision), str):
            return _Listed()
        raise ModelNotLoaded(
            f"the hub cannot be reached ({type(error).__name__}), and no copy is on this machine: "
            "name a folder, or fill the cache of HF_HOME while there is a network"
        ) from None
    files = frozenset(file.rfilename for file in info.siblings or ())
    return _of_config(files, info.config or {})


def _listed_folder(folder: Path) -> _Listed:
    if folder.is_file():
        raise ModelNotLoaded("is a file: name the folder of the checkpoint that it belongs to")
    if not folder.is_dir():
        message = f"no such folder: {folder.absolute()}; name one that holds a checkpoint"
        raise ModelNotLoaded(f"{message}, or a hub id")
    files = frozenset(os.listdir(folder))
    if _CONFIG not in files:
        return _Listed(files)
    return _of_config(files, json.loads((folder / _CONFIG).read_text(encoding="utf-8")))


def _of_config(files: frozenset[str], config: Mapping[str, Any]) -> _Listed:
    method = (config.get("quantization_config") or {}).get("quant_method") or ""
    return _Listed(files, tuple(config.get("architectures") or ()), method)


def skipped_method(method: str, head: Head) -> str:
    """Why a checkpoint is refused whose weights would be taken for numbers that they are not."""
    return f"is quantised by {method}, which transformers does not apply: {read_elsewhere(head)}"


def read_elsewhere(head: Head) -> str:
    """The two ways to serve a checkpoint that is not read here."""
    by_server = "llama-server for GGUF, or vLLM) serve it: COCOA_GENERATION__URL and __API=openai"
    if head != "causal":
        by_server = "text-embeddings-inference, or vLLM) serve it: its __URL and __API"
    return (
        "name the safetensors checkpoint that it was made of, or have a server that reads it "
        f"({by_server}"
    )


def _check_kind(files: AbstractSet[str], head: Head) -> None:
    for ending, kind in _OTHER_KINDS:
        if any(name.lower().endswith(ending) for name in files):
            raise ModelNotLoaded(f"is {kind}, which is not read here: {read_elsewhere(head)}")


def _check_files(files: AbstractSet[str], head: Head) -> None:
    if _CONFIG not in files or not any(name.endswith(".safetensors") for name in files):
        _check_kind(files, head)
    if _CONFIG not in files and not (head == "embedding" and _MODULES in files):
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


def _check_head(architectures: Sequence[str], head: Head) -> None:
    """Libraries would put a random head in place of a missing one."""
    if not architectures or head == "embedding":
        return
    if head == "classifier":
        fits = any(name.endswith(_CLASSIFIER) for name in architectures)
        wanted = "a classifier of pairs"
    else:
        fits = not all(name.endswith(_NOT_CAUSAL) for name in architectures)
        wanted = "a causal language model"
    if not fits:
        raise ModelNotLoaded(f"is a {', '.join(architectures)}, where {wanted} is needed")
