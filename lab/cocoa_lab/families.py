"""Sweep: each family of causal language models in transformers, served, beside its own full pass.

    python -m cocoa_lab.families --out families.jsonl

Each family is a tiny random model in a process of its own. What is written already is not tried
again.
"""

import json
import tempfile
import tomllib
import warnings
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.progress import track
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
from transformers.utils.logging import set_verbosity_error

from models.engines.protocol import EngineConfig
from models.engines.transformers import TransformersEngine
from models.errors import ModelNotLoaded
from models.records import GenerationRequest, GivenAnswer, SamplingParams
from models.statistics import supplied_by

_PROCESSES = get_context("forkserver")
_VOCABULARY = 260
# Nats by which a token's log-prob may differ, of float32.
_TOLERANCE = 2e-3
_PROMPTS = ("Once upon a time, there was", "Hi")
_GIVEN = " a text of more tokens than one pass over a given answer reads, which is sixty-four."
_NUM_TOKENS = 24
_LIMIT_S = 120  # for one family

# Sizes: names by size, those that are always given, and what a family needs of its own.
_SIZES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def _shrunk(kind: Any) -> Any:
    """A configuration of this kind, and of what it is made of, with small sizes."""
    defaults = kind()
    given = defaults.to_dict()
    chosen: dict[str, Any] = {}
    for size, names in _SIZES["names"].items():
        for name in filter(given.__contains__, names.split()):
            if given[name] is not None or name in _SIZES["always"]["names"].split():
                chosen[name] = json.loads(size)
    if "kv_lora_rank" in given:
        chosen["num_key_value_heads"] = chosen["num_attention_heads"]
    for name in getattr(kind, "sub_configs", {}):
        if isinstance(given.get(name), dict):
            chosen[name] = _shrunk(type(getattr(defaults, name))).to_dict()
    return kind(**chosen | _SIZES["own"].get(kind.model_type, {}))


def small_model(family: str, seed: int) -> Any:
    """A model whose log-probs are far from even."""
    made: Any = AutoModelForCausalLM.from_config
    torch.manual_seed(seed)
    model = made(_shrunk(CONFIG_MAPPING[family])).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.mul_(4)
    ids = torch.arange(40)[None] % _VOCABULARY
    if not model(input_ids=ids, use_cache=False).logits.isfinite().all():
        raise ValueError("its logits are not finite")
    return model


def try_family(family: str, seed: int = 0) -> dict[str, Any]:
    """The outcome of one family: what was compared, or how it was refused.

    Where something is wrong, another seed decides: rounding alone may route a token to another
    expert.
    """
    torch.set_num_threads(1)
    set_verbosity_error()  # type: ignore[no-untyped-call]
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        try:
            small_model(family, seed).save_pretrained(folder)
            _byte_tokenizer().save_pretrained(folder)
            own: Any = AutoModelForCausalLM.from_pretrained(folder)
            own.eval()
        except Exception as error:  # of whichever kind: it says nothing of the service
            return _outcome("not built", _named(error))
        try:
            engine = TransformersEngine.load(EngineConfig(model=folder))
            served = _served(engine)
            differences = _differences(own, served)
        except ModelNotLoaded as error:
            return _outcome("refused in words", str(error))
        except Exception as error:
            return _outcome("refused badly", _named(error))
    outcome = "right"
    if max(differences.values()) > _TOLERANCE:
        if seed == 0:
            return try_family(family, seed=1)
        outcome = "wrong"
        if max(differences.values()) <= 2 * _rounding(own, served):
            outcome = "right"
    elif engine.info.num_layers == 0:
        outcome = "right, but for Light"
    words = ", ".join(f"{kind} {difference:.1e}" for kind, difference in differences.items())
    return _outcome(outcome, f"{words} nats")


def _outcome(outcome: str, words: str) -> dict[str, Any]:
    return {"outcome": outcome, "words": words}


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300]


def _byte_tokenizer() -> PreTrainedTokenizerFast:
    """One token a byte."""
    tokens = ["<s>", "</s>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    backend = Tokenizer(models.BPE(vocab=dict(zip(tokens, range(260), strict=False)), merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    names = dict(zip(("bos_token", "eos_token", "pad_token"), tokens, strict=False))
    names["pad_token"] = names["eos_token"]
    made: Any = PreTrainedTokenizerFast
    tokenizer: PreTrainedTokenizerFast = made(tokenizer_object=backend, **names)
    return tokenizer


def _served(engine: TransformersEngine) -> list[tuple[str, list[int], Any]]:
    """What was asked for, its prompt, and what the engine made of it, all at once."""
    sampling = SamplingParams(num_samples=3, max_new_tokens=_NUM_TOKENS, seed=1)
    wanted = supplied_by("answer", "samples")
    requests = [GenerationRequest(p, sampling=sampling, statistics=wanted) for p in _PROMPTS]
    given = GivenAnswer(_GIVEN, append_eos=False)
    requests.append(replace(requests[0], answer=given))
    jobs = list(map(engine.prepare, requests))
    errors = [error for _, error in engine.step(jobs).failed]
    while not engine.is_idle:
        errors += [error for _, error in engine.step([]).failed]
    if errors:
        raise errors[0]
    found = []
    for job in jobs:
        generation = engine.generation(job)
        kind = "given" if job.request.answer else "greedy"
        found.append((kind, job.prompt_ids, generation.answer))
        for sample in generation.samples:
            found.append(("samples", job.prompt_ids, sample))
    return found


@torch.inference_mode()
def _differences(own: Any, served: Sequence[tuple[str, list[int], Any]]) -> dict[str, float]:
    """By kind, the most by which a log-prob differs from the model's own full pass, in nats."""
    found: dict[str, float] = defaultdict(float)
    for kind, prompt_ids, sequence in served:
        ids = torch.tensor([[*prompt_ids, *sequence.token_ids]])
        logits = own(input_ids=ids, use_cache=False).logits[0, len(prompt_ids) - 1 : -1]
        logprobs = logits.float().log_softmax(-1)
        chosen = logprobs.gather(1, ids[0, len(prompt_ids) :, None])[:, 0]
        difference = (torch.as_tensor(sequence.token_logprobs) - chosen).abs().max()
        if kind == "greedy":
            difference = torch.maximum(difference, (logprobs.max(-1).values - chosen).max())
        found[kind] = max(found[kind], float(difference.nan_to_num(torch.inf)))
    return found


@torch.inference_mode()
def _rounding(own: Any, served: Sequence[tuple[str, list[int], Any]]) -> float:
    """The most by which the model's own full pass differs from itself in float64, in nats.

    Where a state runs through all of a text (Mamba), that is more than a hundredth.
    """
    passes: list[list[torch.Tensor]] = []
    for dtype in (torch.float32, torch.float64):
        model = own.to(dtype)
        passes.append([])
        for _, prompt_ids, sequence in served:
            ids = torch.tensor([[*prompt_ids, *sequence.token_ids]])
            logits = model(input_ids=ids, use_cache=False).logits[0, :-1]
            logprobs = logits.double().log_softmax(-1)
            passes[-1].append(logprobs.gather(1, ids[0, 1:, None]))
    return float((torch.cat(passes[0]) - torch.cat(passes[1])).abs().max())


def _answer(family: str, answers: Connection) -> None:
    answers.send(try_family(family))


def _tried(family: str) -> dict[str, Any]:
    """In a process of its own, which is ended behind the limit."""
    ours, theirs = _PROCESSES.Pipe(duplex=False)
    process = _PROCESSES.Process(target=_answer, args=(family, theirs))
    process.start()
    theirs.close()
    outcome = _outcome("refused badly", f"nothing within {_LIMIT_S} s")
    if ours.poll(_LIMIT_S):
        outcome = _outcome("refused badly", "its process died")
        with suppress(EOFError):
            outcome = ours.recv()
    process.kill()
    process.join()
    return {"family": family, **outcome}


app = typer.Typer(help=__doc__, add_completion=False)


@app.command()
def sweep(
    out: Annotated[Path, typer.Option(help="A JSON line for each family; what it has is kept.")],
    only: Annotated[list[str] | None, typer.Argument(help="Families; default: all.")] = None,
) -> None:
    """Try each family, and print the counts of outcomes."""
    found: dict[str, dict[str, Any]] = {}
    if out.exists():
        for line in out.read_text().splitlines():
            known = json.loads(line)
            found[known["family"]] = known
    families = only or list(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
    missing = [family for family in families if family not in found]
    with ThreadPoolExecutor(2) as pool, out.open("a") as lines:
        results = pool.map(_tried, missing)
        for result in track(results, total=len(missing), description="families"):
            found[result["family"]] = result
            lines.write(json.dumps(result) + "\n")
            lines.flush()
    for outcome, count in Counter(known["outcome"] for known in found.values()).most_common():
        print(f"{count:4} {outcome}")
        if not outcome.startswith("right"):
            for known in found.values():
                if known["outcome"] == outcome:
                    print(f"     {known['family']}: {known['words']}")


if __name__ == "__main__":
    _PROCESSES.set_forkserver_preload(["models.engines.transformers"])
    app()
