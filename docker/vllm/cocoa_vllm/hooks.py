"""Where the plugin enters vLLM. Every name of vLLM's here is internal to it: pin the version."""

import functools
import hashlib
import inspect
import logging
import pkgutil
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import Tensor

from cocoa_vllm import columns
from cocoa_vllm.probe import Model
from cocoa_vllm.reader import Reader, Row, Step

logger = logging.getLogger("vllm.cocoa")

# The hooks were read against, and run with, this release.
TESTED = "0.32.0"
_GATHERING = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_RUNNER = "vllm.v1.worker.gpu_model_runner:GPUModelRunner"

# The methods that the plugin stands around: module, class, name.
CHECKED = "vllm.sampling_params:SamplingParams._verify_args"
STARTED = "vllm.v1.worker.worker_base:WorkerWrapperBase.init_device"
LOADED = f"{_RUNNER}._setup_eagle3_aux_hidden_state_outputs"
SCHEDULED = f"{_RUNNER}._update_states"
COMPUTED = f"{_RUNNER}.sample_tokens"
SAMPLED = f"{_RUNNER}._sample"


class Unfit(RuntimeError):
    """This vLLM, or its configuration, is not one that the plugin knows; its worker ends."""


def install() -> None:
    """Check what requests say, and hook the model runner once a worker is made.

    vLLM calls it in the API server, the engine core and each worker, perhaps twice.
    """
    import vllm

    if not vllm.__version__.startswith(TESTED):
        logger.warning("cocoa: tried with vLLM %s, this is %s", TESTED, vllm.__version__)
    hook(CHECKED, around_verify_args)
    hook(STARTED, around_init_device)


def hook(method: str, instead: Callable[..., Any]) -> None:
    """Have `instead` called, with a method of vLLM's and its arguments, in place of that method.

    Once however often it is asked for. The method has to have the parameters that `instead` has
    behind its first; where that gathers `*args`, whatever comes is passed on.

    Raises:
        Unfit: it is not there, or has other parameters.
    """
    path, _, name = method.rpartition(".")
    try:
        owner = pkgutil.resolve_name(path)
        original = getattr(owner, name)
    except (ImportError, AttributeError) as error:
        raise Unfit(
            f"cocoa: this vLLM has no {method}, without which there is no plugin"
        ) from error
    parameters = inspect.signature(original).parameters.values()
    named = tuple(one.name for one in parameters if one.kind not in _GATHERING)
    known = tuple(inspect.signature(instead).parameters)[1:]
    if "args" not in known and named != known:
        raise Unfit(f"cocoa: this vLLM's {method} takes {named}, not {known}")
    if hasattr(original, "cocoa"):
        return

    @functools.wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return instead(original, *args, **kwargs)

    wrapped.cocoa = True  # type: ignore[attr-defined]
    setattr(owner, name, wrapped)


def around_verify_args(verify: Callable[..., None], self: Any) -> None:
    verify(self)
    if words := columns.complaint(self.extra_args, self.logprobs):
        from vllm.exceptions import VLLMValidationError

        raise VLLMValidationError(words, parameter="vllm_xargs")


def around_init_device(
    init_device: Callable[..., Any], self: Any, *args: Any, **kwargs: Any
) -> Any:
    if self.vllm_config.use_v2_model_runner:
        raise Unfit(
            "cocoa: the plugin does not know vLLM's second model runner, which it takes where "
            "there is a GPU: set VLLM_USE_V2_MODEL_RUNNER=0 to have the first one"
        )
    hook(LOADED, around_setup)
    hook(SCHEDULED, around_update_states)
    hook(COMPUTED, around_sample_tokens)
    hook(SAMPLED, around_sample)
    return init_device(self, *args, **kwargs)


def around_setup(setup: Callable[..., None], self: Any) -> None:
    """The model is loaded and neither compiled nor captured."""
    setup(self)
    self.cocoa_step = None
    self.cocoa = make_reader(self)


def around_update_states(update: Callable[..., Any], self: Any, scheduler_output: Any) -> Any:
    """Called for each step, and for one without tokens, which may be the last for long."""
    self.cocoa.forget(scheduler_output.finished_req_ids)
    self.cocoa.learn(scheduler_output.scheduled_new_reqs)
    return update(self, scheduler_output)


def around_sample_tokens(sample: Callable[..., Any], self: Any, grammar_output: Any) -> Any:
    """The forward pass is launched; what it scheduled is still known."""
    state = self.execute_model_state
    self.cocoa_step = None if state is None else step_of(self, state)
    return sample(self, grammar_output)


def around_sample(
    sample: Callable[..., Any], self: Any, logits: Tensor | None, spec_decode_metadata: Any
) -> Any:
    """The logits are final but for what the sampler does to them in place."""
    step = self.cocoa_step
    if step is None or logits is None or spec_decode_metadata is not None:
        return sample(self, logits, spec_decode_metadata)
    entropy = columns.entropies(logits, step.indices)
    output = sample(self, logits, spec_decode_metadata)
    if output.logprobs_tensors is not None:
        self.cocoa.write(step, entropy, output.logprobs_tensors)
    return output


def step_of(runner: Any, state: Any) -> Step | None:
    """The step's rows that opted in; None without any."""
    if not runner.cocoa.modes:
        return None
    batch, scheduled = runner.input_batch, state.scheduler_output.num_scheduled_tokens
    rows = []
    for index, request in enumerate(batch.req_ids):
        mode = runner.cocoa.modes.get(request)
        if mode is None or runner.discard_request_mask.np[index]:  # a prefill's earlier chunk
            continue
        if runner.speculative_config is not None and mode != "identity":
            continue
        read = int(batch.num_computed_tokens_cpu[index]) + scheduled[request]
        done = read - int(batch.num_prompt_tokens[index])
        end = int(runner.query_start_loc.np[index + 1]) - 1
        rows.append(Row(index, request, mode, done, end))
    step: Step | None = runner.cocoa.step(rows, state.aux_hidden_states)
    return step


def make_reader(runner: Any) -> Reader:
    """The reader of a model runner whose model is loaded, which is told which layers to show.

    Raises:
        ProbeRefused: a probe that the deployment names does not fit the model.
    """
    config = runner.vllm_config
    model_config = config.model_config
    named = config.additional_config if isinstance(config.additional_config, dict) else {}
    settings = named.get(columns.ARGUMENT, {})
    commit = getattr(model_config.hf_config, "_commit_hash", None)
    reader = Reader(
        Model(
            revision=revision_of(model_config.model, commit),
            dimension=model_config.get_hidden_size(),
            num_layers=getattr(model_config.hf_text_config, "num_hidden_layers", 0),
        ),
        f"{model_config.dtype} {model_config.quantization}",
        settings.get("probes", ()),
        _obstacle(runner),
        runner.device,
    )
    if reader.layers:
        runner.use_aux_hidden_state_outputs = True
        runner.get_model().set_aux_hidden_state_layers(reader.layers)
        # A hash of this is part of the name of compiled graphs, which differ with the layers. In
        # place, since a model of several parts has copies of the configuration.
        settings["layers"] = list(reader.layers)
    return reader


def _obstacle(runner: Any) -> int:
    """Why there can be no Light, or READY."""
    from vllm.model_executor.models.interfaces import supports_eagle3

    parallel = runner.parallel_config
    if runner.speculative_config is not None:
        return columns.SPECULATIVE
    if (
        parallel.pipeline_parallel_size > 1
        or getattr(parallel, "prefill_context_parallel_size", 1) > 1
        or getattr(parallel, "enable_batch_sharded_sampling", False)
    ):
        return columns.PARALLEL
    if runner.model_config.logprobs_mode != "raw_logprobs":
        return columns.OTHER_LOGPROBS
    return columns.READY if supports_eagle3(runner.get_model()) else columns.NO_SUPPORT


def revision_of(model: str, commit: str | None) -> str:
    """What names the model's weights, as far as the worker can tell; "" where it cannot.

    Args:
        model: path or hub id that vLLM loads.
        commit: the hub's, as the configuration tells it.
    """
    if found := re.search(r"/snapshots/([0-9a-f]{40})", model):  # the hub's cache
        return found[1]
    if not Path(model).is_dir():
        return commit or ""
    digest = hashlib.sha256()
    files = sorted(Path(model).glob("*.safetensors"))
    for path in files:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[: columns.DIGITS] if files else ""
