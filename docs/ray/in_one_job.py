"""Answers of vLLM to a file of prompts, and their scores, in one job of Ray Data.

    python in_one_job.py MODEL PROMPTS ANSWERS CHECKPOINT [ENGINE]

Ray, vLLM and this checkout (`pip install '.[models]'`) are in one environment. PROMPTS is a file
of lines {"id", "prompt"}, each id once. ANSWERS and CHECKPOINT are folders: files of lines {"id",
"response"}, and of the ids that have one. The same command goes on with the same folders. ENGINE is
a JSON object of vLLM's engine arguments. Which model compares texts says the environment, as for
the service.
"""

import json
import sys
import time
from collections.abc import Iterator
from typing import Any

import ray
from lines import OF_A_LINE, Answers, Lines, answer_of, begin, place
from ray.data.llm import build_processor, vLLMEngineProcessorConfig
from starlette.testclient import TestClient

from app.main import create_app
from app.settings import load_settings

# Draws of one block are in memory together, written together, and made again together by who goes
# on.
BLOCKS = 8
NUM_SAMPLES = 10
SAMPLING = {"max_tokens": 64, "logprobs": 0}  # the log-prob of the drawn token alone
MAX_ITEMS = 64  # that the service takes at once


def draws(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The answer and each sample as rows of their own: Ray's processor keeps one text of a row."""
    asked = {"id": row["id"], "prompt": json.loads(row["line"])["prompt"]}
    for i in range(NUM_SAMPLES + 1):
        temperature = float(i > 0)
        yield asked | {"sampling_params": SAMPLING | {"temperature": temperature, "seed": i}}


def drawn(row: dict[str, Any]) -> dict[str, Any]:
    """A text, and the log-prob in nats of each of its tokens, the terminating one among them."""
    logprobs = []
    for token, known in zip(row["generated_tokens"], row["logprobs"], strict=True):
        logprobs.append(known[token]["logprob"])
    return {"id": row["id"], "text": row["generated_text"], "token_logprobs": logprobs}


class Score:
    """The service without a socket, which asks no language model of texts with their log-probs."""

    def __init__(self) -> None:
        self.service = TestClient(create_app(load_settings()))
        self.service.__enter__()  # loads, once in each actor, which ends where that fails
        while self.service.get("/readyz").status_code != 200:
            time.sleep(0.1)

    def __call__(self, block: dict[str, Any]) -> dict[str, list[str]]:
        """Of each prompt of a block what `POST /score` says."""
        texts: dict[str, list[dict[str, Any]]] = {}
        for name, text, logprobs in zip(*block.values(), strict=True):
            texts.setdefault(name, []).append({"text": text, "token_logprobs": list(logprobs)})
        items = []
        for answer, *samples in texts.values():
            if len(samples) != NUM_SAMPLES:
                raise RuntimeError("draws of one prompt lie in several blocks")
            given = {"answer": answer["text"], "answer_token_logprobs": answer["token_logprobs"]}
            items.append(given | {"samples": samples})
        responses: list[Any] = []
        for start in range(0, len(items), MAX_ITEMS):
            asked = self.service.post("/score", json={"items": items[start : start + MAX_ITEMS]})
            responses += asked.raise_for_status().json()["results"]
        for response in responses:
            if (error := response.get("error")) and error["code"] not in OF_A_LINE:
                raise RuntimeError(error["message"])
        return {"id": list(texts), "answer": list(map(answer_of, texts, responses))}


def main() -> None:
    """Answer and score what has no answer yet."""
    model, prompts, answers, checkpoint, *engine = sys.argv[1:]
    context = begin(checkpoint, 6)
    context.target_max_block_size = None  # blocks are not split: draws of a prompt stay together
    bundles = None
    if "GPU" not in ray.cluster_resources():
        bundles = {"bundles": [{"CPU": 1}]}
    config = vLLMEngineProcessorConfig(
        model_source=model,
        engine_kwargs=json.loads("".join(engine) or "{}"),
        batch_size=8 * (NUM_SAMPLES + 1),
        concurrency=1,
        placement_group_config=bundles,
        chat_template_stage=False,
        detokenize_stage=False,
        log_engine_metrics=False,  # these need more of Ray than ray[data]
    )
    write = build_processor(config, postprocess=drawn)
    rows = ray.data.read_datasource(Lines(place(prompts)), override_num_blocks=BLOCKS)
    written = write(rows.flat_map(draws))
    actors = ray.data.ActorPoolStrategy(size=1)
    written.map_batches(Score, batch_size=None, compute=actors).write_datasink(
        Answers(place(answers))
    )


if __name__ == "__main__":
    main()
