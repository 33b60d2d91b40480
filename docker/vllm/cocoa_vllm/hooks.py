"""Where the plugin enters vLLM. Every name of vLLM's here is internal to it: pin the version."""

import functools
import importlib
import inspect
import logging
import os
from collections.abc import Callable, Mapping
from typing import Any

from cocoa_vllm.identity import (
    NO_SUPPORT,
    OTHER_LOGPROBS,
    PARALLEL,
    READY,
    SPECULATIVE,
    revision_of,
)
from cocoa_vllm.modes import ARGUMENT, complaint
from cocoa_vllm.probe import Model
from cocoa_vllm.reader import Reader
from cocoa_vllm.touched import CHECKED, STARTED, Method

logger = logging.getLogger("vllm.cocoa")

# The hooks were read against, and run with, this release.
TESTED = "0.32.0"
# Set to 1, it lets the plugin do what it was never seen doing.
ALLOW_UNTESTED = "COCOA_VLLM_ALLOW_UNTESTED"
_GATHERING = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Unfit(RuntimeError):
    """This vLLM, or its configuration, is not one that the plugin knows; its worker ends."""


def install() -> None:
    """Check what requests say, and hook the model runner once a worker is made."""
    import vllm

    if not vllm.__version__.startswith(TESTED):
        logger.warning("cocoa: tried with vLLM %s, this is %s", TESTED, vllm.__version__)
    hook(CHECKED, _checking_requests)
    hook(STARTED, _hooking_runner)


def hook(method: Method, around: Callable[[Callable[..., Any]], Any]) -> None:
    """Stand around a method of vLLM's.

    Raises:
        Unfit: it is not there, or has other parameters.
    """
    try:
        owner = getattr(importlib.import_module(method.module), method.owner)
        parameters = inspect.signature(getattr(owner, method.name)).parameters.values()
    except (ImportError, AttributeError) as error:
        raise Unfit(
            f"cocoa: this vLLM has no {method}, without which there is no plugin"
        ) from error
    named = tuple(one.name for one in parameters if one.kind not in _GATHERING)
    if method.parameters not in (None, named):
        raise Unfit(f"cocoa: this vLLM's {method} takes {named}, not {method.parameters}")
    wrap(owner, method.name, around)


def wrap(owner: type, name: str, around: Callable[[Callable[..., Any]], Any]) -> None:
    """Replace a method by `around(method)`, once however often it is asked for."""
    original = getattr(owner, name)
    if not hasattr(original, "cocoa"):
        wrapped: Any = functools.wraps(original)(around(original))
        wrapped.cocoa = True
        setattr(owner, name, wrapped)


def _checking_requests(verify: Callable[..., None]) -> Callable[..., None]:
    def _verify_args(self: Any) -> None:
        verify(self)
        if words := complaint(self.extra_args, self.logprobs):
            from vllm.exceptions import VLLMValidationError

            raise VLLMValidationError(words, parameter="vllm_xargs")

    return _verify_args


def _hooking_runner(init_device: Callable[..., Any]) -> Callable[..., Any]:
    def init(self: Any, *args: Any, **kwargs: Any) -> Any:
        is_second = self.vllm_config.use_v2_model_runner
        if is_second:
            check_allowed(self.vllm_config.device_config.device_type, os.environ)
        importlib.import_module(f"cocoa_vllm.runner_v{2 if is_second else 1}").install()
        return init_device(self, *args, **kwargs)

    return init


def check_allowed(device: str, environment: Mapping[str, str]) -> None:
    """Refuse the second model runner where it was never run.

    Args:
        device: vLLM's word for where it computes.
        environment: of the process.

    Raises:
        Unfit: it was never run there, and nobody says that it may be.
    """
    if device == "cpu" or environment.get(ALLOW_UNTESTED) == "1":
        return
    raise Unfit(
        "cocoa: the plugin was never run with vLLM's second model runner on such a device: set "
        f"VLLM_USE_V2_MODEL_RUNNER=0 to have the first one, or {ALLOW_UNTESTED}=1 to have it all "
        "the same"
    )


def make_reader(runner: Any) -> Reader:
    """The reader of a model runner whose model is loaded, which is told which layers to show.

    Raises:
        ProbeRefused: a probe, or the prompts, that the deployment names do not fit the model.
    """
    config = runner.vllm_config
    model_config = config.model_config
    named = config.additional_config if isinstance(config.additional_config, dict) else {}
    settings = named.get(ARGUMENT, {})
    commit = getattr(model_config.hf_config, "_commit_hash", None)
    reader = Reader(
        Model(
            name=model_config.model,
            revision=revision_of(model_config.model, commit),
            dimension=model_config.get_hidden_size(),
            num_layers=getattr(model_config.hf_text_config, "num_hidden_layers", 0),
        ),
        f"{model_config.dtype} {model_config.quantization}",
        settings.get("probes", ()),
        settings.get("prompts", ""),
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
        return SPECULATIVE
    if (
        parallel.pipeline_parallel_size > 1
        or getattr(parallel, "prefill_context_parallel_size", 1) > 1
        or getattr(parallel, "enable_batch_sharded_sampling", False)
    ):
        return PARALLEL
    if runner.model_config.logprobs_mode != "raw_logprobs":
        return OTHER_LOGPROBS
    return READY if supports_eagle3(runner.get_model()) else NO_SUPPORT
