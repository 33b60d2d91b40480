"""As much of vLLM as the plugin touches."""

from types import SimpleNamespace

import numpy as np
import torch
from cocoa_vllm.probe import Model
from cocoa_vllm.reader import Reader

V, D = 50, 8
CPU = torch.device("cpu")


def reader(*folders, obstacle=0, precision="float32", revision="1", device=CPU):
    """A reader of a model that `tests.tiny_probes` fit."""
    return Reader(Model(revision, D, 4), precision, folders, obstacle, device)


def sampled(logits, num_logprobs=6):
    """What vLLM's sampler gives for the most probable token of each row."""
    logprobs, ids = logits.log_softmax(-1).topk(num_logprobs, dim=-1)
    ids = torch.cat([ids[:, :1], ids], dim=1).int()
    logprobs = torch.cat([logprobs[:, :1], logprobs], dim=1)
    return SimpleNamespace(logprob_token_ids=ids, logprobs=logprobs)


class Buffer:
    """vLLM's pair of a numpy array and a tensor."""

    def __init__(self, values, dtype):
        self.np = np.array(values, dtype)
        self.gpu = torch.from_numpy(self.np)


def asking(mode):
    """A request's sampling parameters."""
    return SimpleNamespace(extra_args={"cocoa": mode} if mode else None)


def loaded(name, *, folders=(), **changes):
    """A runner with a loaded model, as `make_reader` reads it."""
    model = SimpleNamespace(layers=None, supported=True)
    model.set_aux_hidden_state_layers = lambda layers: setattr(model, "layers", layers)
    model_config = SimpleNamespace(
        model=name,
        hf_config=SimpleNamespace(_commit_hash="1"),
        hf_text_config=SimpleNamespace(num_hidden_layers=4),
        dtype="torch.float32",
        quantization=None,
        logprobs_mode="raw_logprobs",
        get_hidden_size=lambda: D,
    )
    parallel = SimpleNamespace(pipeline_parallel_size=1)
    runner = SimpleNamespace(
        vllm_config=SimpleNamespace(
            model_config=model_config,
            additional_config={"cocoa": {"probes": list(folders)}, "other": 1},
        ),
        model_config=model_config,
        parallel_config=parallel,
        speculative_config=None,
        device=CPU,
        use_aux_hidden_state_outputs=False,
        get_model=lambda: model,
    )
    for key, value in changes.items():
        owner = next(part for part in (runner, model_config, parallel, model) if hasattr(part, key))
        setattr(owner, key, value)
    return runner
