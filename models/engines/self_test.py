"""A test at start: a model as it is served here agrees with its own full forward pass."""

import inspect
from collections.abc import Sequence

import torch
from torch import Tensor

from models.engines.rows import RowCache
from models.errors import ModelNotLoaded
from models.pretrained import PreTrainedModel

# Tokens of the prompts of two rows, which are padded where they are read together.
_PROMPTS = (11, 6)
# Tokens that both rows decode after their prompts: at most 22 forward passes in all.
_STEPS = 9
# Share of the logits' spread by which two computations of one model may differ; a model without
# its past differs by about all of it. Half precision rounds, by .2 where states are as large as
# Gemma's, and may route a token to another expert.
_TOLERANCE, _HALF_TOLERANCE = 0.01, 0.4

_REMEDY = "serve it by an OpenAI-compatible server and name that with COCOA_GENERATION__URL"


def check_reads_its_past(model: PreTrainedModel) -> None:
    """Refuse a model that ignores the cache it is given.

    Raises:
        ModelNotLoaded: its `forward` has no `past_key_values`.
    """
    if "past_key_values" not in inspect.signature(model.forward).parameters:
        raise ModelNotLoaded(
            f"is a {type(model).__name__}, which takes no `past_key_values` and would forget what "
            f"it has read: {_REMEDY}"
        )


@torch.inference_mode()
def expected_logits(model: PreTrainedModel) -> list[Tensor]:
    """Logits (1 + _STEPS, V) of each of two rows, by full forward passes of the model as it is."""
    logits = []
    for row, length in zip(_rows(model), _PROMPTS, strict=True):
        output = model(input_ids=torch.tensor([row], device=model.device), use_cache=False)
        logits.append(output.logits[0, length - 1 :].float())
    return logits


@torch.inference_mode()
def check_agreement(cache: RowCache, wanted: Sequence[Tensor]) -> int:
    """Decode two rows of different length and compare them with full forward passes.

    Returns the number of tokens that were compared.

    Raises:
        ModelNotLoaded: the logits differ by more than rounding.
    """
    model, rows = cache.model, _rows(cache.model)
    tolerance = _HALF_TOLERANCE
    if model.dtype == torch.float32:
        tolerance = _TOLERANCE
    for expected, logits in zip(wanted, _served(cache, rows), strict=True):
        spread = (expected - expected.mean(-1, keepdim=True)).norm()
        difference = float((logits - expected).norm() / spread)
        if not difference <= tolerance:  # NaN is not
            raise ModelNotLoaded(
                f"is a {type(model).__name__}, which is not served rightly here: decoded token by "
                f"token, its logits differ from its own full forward pass by {difference:.2f} of "
                f"their spread: {_REMEDY}"
            )
    return sum(map(len, rows))


def _rows(model: PreTrainedModel) -> list[list[int]]:
    config = model.config.get_text_config(decoder=True)
    rows = []
    for number, length in enumerate(_PROMPTS, start=1):
        ids = (torch.arange(length + _STEPS) * 7919 + number * 104_729) % int(config.vocab_size)
        if isinstance(first := getattr(config, "bos_token_id", None), int):
            ids[0] = first  # as texts begin: without it some attend to nothing in particular
        rows.append(ids.tolist())
    return rows


def _served(cache: RowCache, rows: Sequence[list[int]]) -> list[Tensor]:
    together: Sequence[Sequence[int]] = ((0,), (1,))
    if cache.mergeable:
        together = ((0, 1),)
    logits: list[Tensor] = []
    for members in together:
        cache.join(cache.prefill([rows[row][: _PROMPTS[row]] for row in members]))
        steps = [cache.logits]
        for step in range(_STEPS):
            cache.forward([rows[row][_PROMPTS[row] + step] for row in members])
            steps.append(cache.logits)
        cache.clear()
        logits += torch.stack(steps, dim=1)
    return logits
