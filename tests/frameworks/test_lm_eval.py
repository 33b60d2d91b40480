"""lm-eval asks the service for likelihoods and for texts: they are those of transformers.

Only `make test-clients` runs this: over a model of the repository, and over a real one where
COCOA_TEST_REAL_MODELS=FOLDER holds `qwen`.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from models.embedded import LANGUAGE_MODELS
from tests.chaos.cocoa_process import cocoa_serve
from tests.frameworks.test_clients import PROGRAMS, python_of

PYTHON, PROGRAM = python_of("lm_eval_tasks"), PROGRAMS / "lm_eval_tasks.py"
MODELS = os.environ.get("COCOA_TEST_REAL_MODELS")
TASKS = Path(__file__).with_name("lm_eval")
OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
REAL = pytest.mark.skipif(MODELS is None, reason="COCOA_TEST_REAL_MODELS names no folder")


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(LANGUAGE_MODELS["embedded-long"], id="embedded-long"),
        pytest.param(str(Path(MODELS or "") / "qwen"), marks=REAL, id="qwen"),
    ],
)
def served(request):
    """A folder, the url of a service over its model in float32, and its own model and tokenizer."""
    model = AutoModelForCausalLM.from_pretrained(request.param, dtype=torch.float32).eval()
    generation = {"MODEL": request.param, "DTYPE": "float32"}
    settings = {f"COCOA_GENERATION__{name}": value for name, value in generation.items()}
    with cocoa_serve(**settings, COCOA_NLI__MODEL="") as serving:
        serving.wait_ready(600)
        yield request.param, serving.url, model, AutoTokenizer.from_pretrained(request.param)


def samples_of(task, tmp_path, url, batch_size=1, **arguments):
    """What lm-eval writes of each line of a task."""
    given = {"model": "cocoa", "base_url": f"{url}/v1/completions", **arguments}
    joined = ",".join(f"{name}={value}" for name, value in given.items())
    command = [PYTHON, PROGRAM, "--model", "local-completions", "--model_args", joined]
    command += ["--include_path", TASKS, "--tasks", task, "--output_path", tmp_path]
    done = subprocess.run(
        [*map(str, command), "--log_samples", "--batch_size", str(batch_size)],
        env=os.environ | OFFLINE | {"HF_HOME": str(tmp_path)},
        cwd=TASKS,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    [written] = tmp_path.rglob(f"samples_{task}_*.jsonl")
    return list(map(json.loads, written.read_text().splitlines()))


WAYS = {
    "tokens by the folder": {"tokenizer_backend": "huggingface"},
    "tokens by the service, together": {"batch_size": 4},
    "texts, side by side": {
        "tokenizer_backend": "huggingface",
        "tokenized_requests": False,
        "add_bos_token": True,  # as the service adds it to texts
        "num_concurrent": 3,
    },
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_likelihoods_and_what_is_greedy_are_those_of_transformers(served, tmp_path, way):
    folder, url, model, tokenizer = served
    if "tokenizer_backend" in way:
        way = {**way, "tokenizer": folder}
    samples = samples_of("choices", tmp_path, url, **way)
    assert len(samples) == 5
    were_greedy = set()
    for sample in samples:
        for asked, [[logprob, is_greedy]] in zip(
            sample["arguments"].values(), sample["resps"], strict=True
        ):
            special = way.get("add_bos_token", False)
            context = tokenizer.encode(asked["arg_0"], add_special_tokens=special)
            ids = tokenizer.encode("".join(asked.values()), add_special_tokens=special)
            with torch.inference_mode():
                logprobs = model(torch.tensor([ids])).logits[0, :-1].log_softmax(-1)
            logprobs, chosen = logprobs[len(context) - 1 :], torch.tensor(ids[len(context) :])
            expected = logprobs.gather(1, chosen[:, None]).sum().item()
            assert float(logprob) == pytest.approx(expected, abs=1e-3)
            greedy = bool((logprobs.argmax(-1) == chosen).all())
            assert is_greedy == str(greedy)
            were_greedy.add(greedy)
    assert were_greedy == {True, False}


def test_texts_are_the_greedy_ones_of_transformers(served, tmp_path):
    _, url, model, tokenizer = served
    samples = samples_of("written", tmp_path, url, tokenizer_backend="remote")
    for sample in samples:
        [asked], [[text]] = sample["arguments"].values(), sample["resps"]
        ids = tokenizer(asked["arg_0"], add_special_tokens=False, return_tensors="pt")
        whole = model.generate(**ids, do_sample=False, max_new_tokens=8)
        written = tokenizer.decode(whole[0, ids.input_ids.shape[1] :], skip_special_tokens=True)
        assert text == written.partition("\n")[0].partition("?")[0]
