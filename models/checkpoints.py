"""Common parts of all models loaded from disk or hub.

Where it lies, and which weights it has.
"""

import hashlib
import mmap
import re
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import try_to_load_from_cache
from safetensors import safe_open
from torch.overrides import TorchFunctionMode
from transformers.utils.logging import (
    disable_default_handler,
    disable_progress_bar,
    enable_propagation,
)

from models.digests import digest_of
from models.embedded import LANGUAGE_MODELS
from models.errors import ModelNotLoaded
from models.loadable import Head, check_checkpoint, read_elsewhere, skipped_method
from models.locations import public_name
from models.pretrained import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    without_compiler,
)

# Instructions that multiply matrices of a precision as they are; without them a processor turns
# each number into a float32 first, at each pass.
_INSTRUCTIONS = {
    torch.bfloat16: ("amx_bf16", "avx512_bf16", "bf16"),
    torch.float16: ("amx_fp16", "avx512_fp16"),
}
_NOT_FLOATS = ("F8", "F4", "I", "U", "BOOL")  # types of numbers that are scaled
# Behind a weight's name: a part of its module other than a bias, or what says so by its end.
_SCALE = re.compile(r"\.(?!bias$)[^.]+|.*(?:scales?|scale_inv|zero_points?|qzeros)")


class _WithoutSympy(TorchFunctionMode):
    """Tensors without storage, in whose place weights are loaded, are made without torch's rules.

    Those are in Python, and import sympy: a sixth of the time that a service takes to start.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch.nn.init.normal_ and kwargs["tensor"].is_meta:
            return kwargs["tensor"]
        if func is torch.empty_like and args and args[0].is_meta:
            return torch.empty(args[0].shape, **{"dtype": args[0].dtype} | kwargs)
        if func is torch.arange and str(kwargs.get("device")) == "meta":
            kwargs = kwargs | {"device": "cpu"}
        return func(*args, **kwargs)


def ready_to_load(
    model: str, revision: str | None, embedded: Mapping[str, Path], head: Head
) -> tuple[str, dict[str, Any]]:
    """Path or hub id of a checkpoint, and the options to load each of its parts with.

    Never remote code, and no progress bars: loading is quick or logged. What transformers remarks
    goes where all logs go, in their format.

    Args:
        model: as in the settings.
        revision: on the hub.
        embedded: folders of the models that ship with the project, by the names that settings know
            them under.
        head: the task that it must have been trained for.

    Raises:
        ModelNotLoaded: says what is missing, and the remedy.
    """
    disable_progress_bar()  # type: ignore[no-untyped-call]
    disable_default_handler()
    enable_propagation()
    path = str(embedded.get(model, model))
    is_offline = check_checkpoint(path, revision, head)
    options = {"revision": revision, "trust_remote_code": False, "local_files_only": is_offline}
    return path, options


def load_whole(kind: Any, path: str, head: Head, **options: Any) -> Any:
    """The model of a checkpoint that has all of its weights, as they are; only safetensors.

    Raises:
        ModelNotLoaded: transformers cannot load it, weights are missing, of which it names some,
            or they are quantised by a method that transformers does not apply.
    """
    options = options | {"use_safetensors": True, "output_loading_info": True}
    with without_compiler():
        try:
            model, loading = _loaded(kind, path, options)
        except (ImportError, RuntimeError, ValueError) as error:
            # Of quantisers, whose packages or devices are not here.
            [line, *_] = [*str(error).splitlines(), ""]
            raise ModelNotLoaded(f"{line}; or {read_elsewhere(head)}") from None
    missing = sorted(loading["missing_keys"])  # tied weights are not among them
    if head == "embedding":  # it takes the states of the last layer, which no pooler has seen
        missing = [name for name in missing if not name.startswith("pooler.")]
    if missing:
        raise ModelNotLoaded(
            f"lacks {len(missing)} weights of a {type(model).__name__}, such as "
            f"{', '.join(missing[:3])}: they would be random; name a checkpoint that was trained "
            "for this and saved whole"
        )
    if getattr(model, "hf_quantizer", None) is None:
        _check_unquantised(model, path, loading.get("unexpected_keys", ()), head)
    return model


def _loaded(kind: Any, path: str, options: dict[str, Any]) -> Any:
    """A model, and what became of its weights."""
    try:
        with _WithoutSympy():
            return kind.from_pretrained(path, **options)
    except RuntimeError:  # it calculates with what is counted here and what has no storage
        return kind.from_pretrained(path, **options)


def _check_unquantised(model: Any, path: str, unexpected: Iterable[str], head: Head) -> None:
    """Refuse weights that are small numbers to be scaled, which nobody has scaled."""
    config = getattr(model, "config", None)
    if method := (getattr(config, "quantization_config", None) or {}).get("quant_method"):
        raise ModelNotLoaded(skipped_method(repr(method), head))
    prefix = f"{getattr(model, 'base_model_prefix', '')}."

    def as_held(name: str) -> str:
        return name.removeprefix(prefix).removesuffix(".weight")

    weights = set(map(as_held, dict(model.named_parameters(remove_duplicate=False))))
    signs = [name for name in sorted(unexpected) if _is_beside(weights, as_held(name))]
    for file in _weight_files(path, config):
        with safe_open(file, framework="pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118, it is no mapping
                kind = tensors.get_slice(name).get_dtype()
                is_weight = name.endswith("weight") or as_held(name) in weights
                if is_weight and kind.startswith(_NOT_FLOATS):
                    signs.append(f"{name} of {kind}")
    if signs:
        raise ModelNotLoaded(skipped_method(f"a method that left {signs[0]}", head))


def _is_beside(weights: Collection[str], name: str) -> bool:
    """True where a name begins with that of a weight, and goes on as what it is scaled with."""
    for sign in re.finditer("[._]", name):
        if name[: sign.start()] in weights and _SCALE.fullmatch(name, sign.start()):
            return True
    return False


def _weight_files(path: str, config: Any) -> list[Path]:
    """The files of a folder, or of the copy of a checkpoint of the hub."""
    folder = Path(path)
    if not folder.is_dir():
        commit = getattr(config, "_commit_hash", None)
        found = try_to_load_from_cache(path, "config.json", revision=commit)
        if not isinstance(found, str):
            return []
        folder = Path(found).parent
    return sorted(folder.glob("*.safetensors"))


def load_language_model(
    name: str, revision: str | None, dtype: str, attn_implementation: str | None
) -> tuple[Any, Any, dict[str, str]]:
    """A causal language model, its tokenizer, and its id and revision.

    Raises as `ready_to_load` and `load_whole` do.
    """
    path, options = ready_to_load(name, revision, LANGUAGE_MODELS, "causal")
    if AutoConfig.from_pretrained(path, **options).is_encoder_decoder:
        raise ModelNotLoaded("is an encoder-decoder, where a causal language model is needed")
    with ThreadPoolExecutor(1) as hashing:  # a gigabyte takes a second
        of_files = hashing.submit(_digest_of_files, path)
        tokenizer = AutoTokenizer.from_pretrained(path, **options)
        options |= {"dtype": dtype, "attn_implementation": attn_implementation}
        model = load_whole(AutoModelForCausalLM, path, "causal", **options)
        revision = of_files.result() or _revision_of_loaded(model)
    return model, tokenizer, {"model_id": public_name(name), "revision": revision}


def load_named(
    name: str, revision: str | None, embedded: Mapping[str, Path], head: Head, dtype: str
) -> tuple[Any, str, dict[str, Any], dict[str, str]]:
    """A pair model, its path, the options to load its other parts with, its id and revision.

    Takes what `ready_to_load` and `load_whole` take, and raises as they do.
    """
    path, options = ready_to_load(name, revision, embedded, head)
    kind: Any = AutoModelForSequenceClassification
    if head == "embedding":
        kind = AutoModel
    model = load_whole(kind, path, head, dtype=dtype, **options)
    names = {"model_id": public_name(name), "revision": revision_of(model, path)}
    return model, path, options, names


def pick_device(device: str) -> str:
    """The torch device; "auto" is CUDA where there is one."""
    if device != "auto":
        return device
    return "cuda" if torch.cuda.is_available() else "cpu"


def multiplies_quickly(dtype: torch.dtype, device: torch.device) -> bool:
    """True where weights of this precision are best left as they are on this device."""
    if device.type != "cpu" or dtype not in _INSTRUCTIONS:
        return True
    capabilities = torch.cpu.get_capabilities()
    return any(capabilities.get(name) for name in _INSTRUCTIONS[dtype])


def revision_of(model: Any, path: str) -> str:
    """The exact name of the weights, the same on every machine that has them.

    The hub's commit; for a local folder a hash over its weight files; where there is neither, a
    hash over the loaded weights.
    """
    return _digest_of_files(path) or _revision_of_loaded(model)


def _digest_of_files(path: str) -> str:
    """Of the weights in a folder; "" for what is none."""
    if not Path(path).is_dir():
        return ""
    digest = hashlib.sha256()
    for file in sorted(Path(path).rglob("*.safetensors")):
        weights: bytes | mmap.mmap = b""
        if file.stat().st_size:  # an empty file cannot be mapped
            with file.open("rb") as stream:
                # As one piece: each read would wait for the threads that load.
                weights = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        digest.update(hashlib.sha256(weights).digest())
    return digest.hexdigest()[:12]


def _revision_of_loaded(model: Any) -> str:
    if commit := getattr(model.config, "_commit_hash", None):
        return str(commit)
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:12]


def tokenizer_fingerprint(tokenizer: Any) -> str:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    rules = backend.to_str() if backend is not None else sorted(tokenizer.get_vocab().items())
    return digest_of(rules, tokenizer.special_tokens_map, tokenizer.chat_template)
