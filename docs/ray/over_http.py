"""Answers of a service to a file of prompts, by Ray Data; begun again, it goes on.

    python over_http.py URL PROMPTS ANSWERS CHECKPOINT

PROMPTS is a file of lines {"id", "prompt"}, each id once. ANSWERS and CHECKPOINT are folders: files
of answers, and of the ids that have one. The same command goes on with the same folders.
"""

import json
import sys
from typing import Any

import ray
from ray.data.checkpoint import CheckpointConfig
from ray.data.llm import HttpRequestProcessorConfig, build_processor

# Rows of one block are written together, and asked again together by who goes on.
BLOCKS = 8
# What each prompt is asked with, and that others go first (docs/batches.md).
ASKED = {"seed": 7, "timeout_s": 600}
HEADERS = {"Priority": "u=7"}


def request_of(row: dict[str, Any]) -> dict[str, Any]:
    """What the service is asked."""
    return {"id": row["id"], "payload": {"prompt": row["prompt"], **ASKED}}


def answer_of(row: dict[str, Any]) -> dict[str, Any]:
    """The response as it came: an answer with its scores, or an error."""
    return {"id": row["id"], "response": json.dumps(row["http_response"])}


def main() -> None:
    """Answer what has no answer yet."""
    url, prompts, answers, checkpoint = sys.argv[1:]
    # Logical processors: the rows wait for the service.
    ray.init(num_cpus=4, object_store_memory=200_000_000, include_dashboard=False)
    ray.data.DataContext.get_current().checkpoint_config = CheckpointConfig(
        id_column="id", checkpoint_path=checkpoint, delete_checkpoint_on_success=False
    )
    config = HttpRequestProcessorConfig(
        url=f"{url}/generate-with-uncertainty", headers=HEADERS, batch_size=8, max_retries=8
    )
    ask = build_processor(config, preprocess=request_of, postprocess=answer_of)
    rows = ray.data.read_json(prompts, override_num_blocks=BLOCKS)
    ask(rows).write_json(answers)


if __name__ == "__main__":
    main()
