"""vLLM in one process with one thread, answering in the plugin's modes; called by `vllm_plugin.py`.

It runs in vLLM's own virtual environment, which is why it imports nothing of ours, and speaks as
`polygraph.py` does. Its milliseconds are those of the processor: one thread waits for no other.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from vllm import LLM, SamplingParams

_PROMPT = {"prompt_token_ids": list(range(5, 69))}
_OF_ALL = {"ignore_eos": True, "max_tokens": 32}
_LAW = {"temperature": 1.0, "top_k": 50, "seed": 1, "logprobs": 0}


def main(model: str, additional_config: str) -> None:
    """Answer requests until there are no more: `num` greedy answers, each with `samples`."""
    llm = LLM(
        model,
        dtype="float32",
        enforce_eager=True,
        generation_config="vllm",
        max_model_len=512,
        block_size=32,
        enable_prefix_caching=False,
        additional_config=json.loads(additional_config),
    )
    spent_s: list[float] = []
    if "cocoa_vllm" in sys.modules:
        from cocoa_vllm import reader, runner_v1

        for name in ("learn", "forget", "entropies", "write"):
            _clock(reader.Reader, name, spent_s)
        _clock(runner_v1, "_step", spent_s)
    print(json.dumps({}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        params = [SamplingParams(temperature=0.0, **_OF_ALL, **asked["greedy"])]
        if asked["samples"]:
            params.append(SamplingParams(n=asked["samples"], **_OF_ALL, **_LAW))
        params *= asked["num"]
        spent_s.clear()
        began_at = time.process_time()
        llm.generate([_PROMPT] * len(params), params, use_tqdm=False)
        used_s = time.process_time() - began_at
        print(json.dumps({"ms": 1000 * used_s, "plugin_ms": 1000 * sum(spent_s)}), flush=True)


def _clock(owner: Any, name: str, spent_s: list[float]) -> None:
    """Note the processor time of each call of a function of the plugin's."""
    function: Callable[..., Any] = getattr(owner, name)

    def clocked(*arguments: Any) -> Any:
        began_at = time.process_time()
        try:
            return function(*arguments)
        finally:
            spent_s.append(time.process_time() - began_at)

    setattr(owner, name, clocked)


if __name__ == "__main__":
    main(*sys.argv[1:])
