"""The model of the tests that reasons, as vLLM's kernels for CPUs can serve it, and what is asked.

Its heads have 24 dimensions, of which those kernels know nothing. Eight zeros behind each head
change none of its numbers: the rotation stays one of 24 dimensions, and queries are scaled by
√(32 / 24), as attention divides them by √32 then.
"""

import json
import random
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from safetensors.torch import load_file, save_file
from torch.nn.functional import pad

FOLDER = Path(__file__).parents[1] / "data" / "reasoning_model"
HEAD_DIM = 32
QUESTIONS = ("What is {a} + {b}?", "{a} + {b} =", "Add {a} and {b}.", "How much is {a} plus {b}?")


_GENERATION = "{%- if add_generation_prompt %}"
_EFFORT = "{%- if reasoning_effort %}{{- '<|user|>' + reasoning_effort }}{%- endif %}\n"


def model_of_efforts(folder: Path) -> Path:
    """Write the same model with a template that reads `reasoning_effort` into an empty folder."""
    shutil.copytree(FOLDER, folder, dirs_exist_ok=True)
    template = (folder / "chat_template.jinja").read_text()
    changed = template.replace(_GENERATION, _EFFORT + _GENERATION)
    assert changed != template
    (folder / "chat_template.jinja").write_text(changed)
    return folder


def padded_model(folder: Path) -> Path:
    """`model_of_efforts` with heads of `HEAD_DIM` dimensions, which answers the same."""
    model_of_efforts(folder)
    config = json.loads((folder / "config.json").read_text())
    size, num_heads = config["head_dim"], config["num_attention_heads"]
    assert config["num_key_value_heads"] == num_heads
    weights = load_file(folder / "model.safetensors")
    for name, stored in weights.items():
        weights[name] = weight = stored.float()  # bfloat16 would not hold the scaled ones
        if "q_proj" in name:
            weight = weight * (HEAD_DIM / size) ** 0.5
        if any(one in name for one in ("q_proj", "k_proj", "v_proj")):
            heads = weight.unflatten(0, (num_heads, size))
            weights[name] = pad(heads, (0, 0, 0, HEAD_DIM - size)).flatten(0, 1).contiguous()
        elif "o_proj" in name:
            inputs = weight.unflatten(1, (num_heads, size))
            weights[name] = pad(inputs, (0, HEAD_DIM - size)).flatten(1, 2).contiguous()
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    config["head_dim"] = HEAD_DIM
    config["rope_parameters"]["partial_rotary_factor"] = size / HEAD_DIM
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def _is_held_out(a: int, b: int) -> bool:
    """Whether training never showed this sum, in either order: one in eight."""
    low, high = sorted((a, b))
    return (low * 37 + high * 101) % 8 == 0


def _held_out_pairs(rng: random.Random) -> Iterator[tuple[int, int]]:
    while True:
        a, b = rng.randrange(100), rng.randrange(100)
        if _is_held_out(a, b):
            yield a, b


def held_out_sums(count: int) -> list[dict]:
    """Chats that ask for sums which training never showed."""
    rng = random.Random(1)
    chats = []
    for a, b in islice(_held_out_pairs(rng), count):
        question = rng.choice(QUESTIONS).format(a=a, b=b)
        chats.append({"messages": [{"role": "user", "content": question}]})
    return chats
