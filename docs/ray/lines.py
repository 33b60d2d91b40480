"""Lines of JSON in and out of Ray Data as they are: no value changes its type.

`ray.data.read_json` makes numbers of texts that look like dates, and gives each row the members of
all others.
"""

import json
import os
from collections.abc import Iterator
from typing import Any

import ray
from pyarrow import NativeFile, table
from ray.data.block import BlockAccessor
from ray.data.checkpoint import CheckpointConfig
from ray.data.datasource import BlockBasedFileDatasink, FileBasedDatasource

# Codes of errors that are of one line alone, and its answer.
OF_A_LINE = {"invalid_request", "prompt_too_long", "chat_template_error", "invalid_logits"}
OF_A_LINE |= {"body_too_large"}


class Lines(FileBasedDatasource):
    """Rows of `line`, a JSON object's text, and `id`, the text of its member of that name."""

    def _read_stream(self, f: NativeFile, path: str) -> Iterator[Any]:
        ids, lines = [], []
        for number, line in enumerate(f.readall().split(b"\n"), 1):
            if line.strip():
                try:
                    ids.append(json.dumps(json.loads(line)["id"]))
                except (ValueError, KeyError, TypeError):
                    reason = f'line {number} of {path} should be an object with an "id"'
                    raise ValueError(reason) from None
                lines.append(line.decode())
        yield table({"id": ids, "line": lines})


class Answers(BlockBasedFileDatasink):
    """Writes each block's column `answer`, of JSON texts, as lines of one file."""

    def __init__(self, path: str) -> None:
        super().__init__(path, file_format="jsonl")

    def write_block_to_file(self, block: BlockAccessor, file: NativeFile) -> None:
        """Write a line for each row."""
        for row in block.iter_rows(public_row_format=True):
            file.write(row["answer"].encode() + b"\n")


def answer_of(name: str, response: Any) -> str:
    """A line of answers; `name` is the text of its id."""
    return json.dumps({"id": json.loads(name), "response": response})


def begin(checkpoint: str, num_cpus: int) -> ray.data.DataContext:
    """Ray, of this job alone unless RAY_ADDRESS names one; what is answered is in `checkpoint`.

    `num_cpus` are logical processors, of which each step has one.
    """
    # Every machine gets this file with the job.
    ray.cloudpickle.register_pickle_by_value(__import__(__name__))
    if "RAY_ADDRESS" in os.environ:
        ray.init()
    else:
        own = {"num_cpus": num_cpus, "object_store_memory": 200_000_000}
        ray.init("local", include_dashboard=False, **own)
    context = ray.data.DataContext.get_current()
    context.checkpoint_config = CheckpointConfig(
        id_column="id", checkpoint_path=place(checkpoint), delete_checkpoint_on_success=False
    )
    return context


def place(path: str) -> str:
    """A folder or file as all machines name it: a URL, or from the root."""
    return path if "://" in path else os.path.abspath(path)
