"""A test at start: a model as it is served here agrees with its own full forward pass."""

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from models.engines.fast.layers import is_llama_like
from models.engines.rows import RowCache
from models.errors import ModelLost, ModelNotLoaded
from models.pretrained import PreTrainedModel

# Tokens of the prompts of three rows, which are padded where they are read together.
_PROMPTS = (11, 11, 6)
# Tokens that the first two rows share: one of them is decoded before the rows part.
_SHARED = 12
# Tokens that each row decodes after its prompt, and those after which the longer rows leave, where
# all decode together: at most 24 forward passes in all.
_STEPS, _LEAVING = 9, 6
# Share of the logits' spread by which two computations of one model may differ; a model without
# its past differs by about all of it. Half precision rounds, by .2 where states are as large as
# Gemma's, and may route a token to another expert.
_TOLERANCE, _HALF_TOLERANCE = 1e-3, 0.4

Found = TypeVar("Found")
# Time steps of a Mamba 2 that are not bounded.
_UNLIMITED = (0.0, math.inf)

_REMEDY = "serve it by an OpenAI-compatible server and name that with COCOA_GENERATION__URL"


def check_time_steps(model: PreTrainedModel) -> None:
    """Refuse a model whose layers bound their time steps where they read a text alone.

    Raises:
        ModelNotLoaded: transformers does not bound them where it decodes.
    """
    for module in model.modules():
        if tuple(getattr(module, "time_step_limit", _UNLIMITED)) != _UNLIMITED:
            raise ModelNotLoaded(
                f"is a {type(model).__name__}, whose layers bound their time steps as they read a "
                f"text and not as they decode, so that its log-probs would be others: {_REMEDY}"
            )


def tried(model: PreTrainedModel, test: Callable[..., Found], *args: object) -> Found:
    """What a test of a model returns.

    Raises:
        ModelNotLoaded: the test has raised something, or has refused the model.
    """
    try:
        return test(*args)
    except (ModelNotLoaded, ModelLost):
        raise
    except Exception as error:  # of a forward pass that is not called as its model expects
        [line, *_] = [*str(error).splitlines(), ""]
        raise ModelNotLoaded(
            f"is a {type(model).__name__}, whose forward pass fails here "
            f"({type(error).__name__}: {line}): {_REMEDY}"
        ) from error


@torch.inference_mode()
def expected_logits(model: PreTrainedModel, seed: int = 0) -> list[Tensor]:
    """Logits (1 + _STEPS, V) of each of three rows, by full forward passes of the model as it is.

    A row's first logits are those behind its prompt; the seed decides the rows.
    """
    *alike, shorter = _rows(model, seed)
    logits: list[Tensor] = []
    for rows in (alike, [shorter]):
        output = model(input_ids=torch.tensor(rows, device=model.device), use_cache=False)
        logits += output.logits[:, -1 - _STEPS :].float()
    return logits


@torch.inference_mode()
def check_agreement(cache: RowCache, wanted: Sequence[Tensor], seed: int = 0) -> int:
    """Compare what the engine does with three rows with full forward passes.

    The rows are decoded, two of which part after a token that they share, and the tokens after a
    prompt are read in one pass. Where only the latter is wrong, and no prompt is read in parts, the
    cache is told to read given answers token by token.

    Returns the number of tokens that were compared.

    Raises:
        ModelNotLoaded: the logits differ by more than rounding.
    """
    model, rows = cache.model, _rows(cache.model, seed)
    tolerance = _HALF_TOLERANCE
    if model.dtype == torch.float32:
        tolerance = _TOLERANCE
    decoded, at_once = _served(cache, rows)
    rounding = float(np.max(list(map(_difference, decoded, wanted))))
    difference = _difference(at_once, wanted[0])
    how = "decoded token by token"
    if rounding <= tolerance:  # NaN is not
        if not cache.mergeable and not difference <= 2 * rounding:
            # as decoding reads them, which is right, if slower
            cache.answer_tokens = cache.told_tokens = 1
        if not cache.mergeable or difference <= tolerance:
            return sum(map(len, rows))
        how, rounding = "with several tokens behind those it has read", difference
    if seed == 0 and not is_llama_like(model):
        # Rounding alone may route a token to another expert, but hardly in other rows, too.
        return check_agreement(cache, expected_logits(model, 1), 1)
    raise ModelNotLoaded(
        f"is a {type(model).__name__}, which is not served rightly here: {how}, its logits differ "
        f"from its own full forward pass by {rounding:.2g} of their spread: {_REMEDY}"
    )


def _difference(logits: Tensor, expected: Tensor) -> float:
    """Share of the logits' spread, of as many tokens as were decoded."""
    expected = expected[: len(logits)]
    spread = (expected - expected.mean(-1, keepdim=True)).norm()
    return float((logits - expected).norm() / spread)


def _rows(model: PreTrainedModel, seed: int) -> list[list[int]]:
    config = model.config.get_text_config(decoder=True)
    rows = []
    for number, length in enumerate(_PROMPTS, start=1 + len(_PROMPTS) * seed):
        ids = (torch.arange(length + _STEPS) * 7919 + number * 104_729) % int(config.vocab_size)
        if isinstance(first := getattr(config, "bos_token_id", None), int):
            ids[0] = first  # as texts begin: without it some attend to nothing in particular
        rows.append(ids.tolist())
    rows[1][:_SHARED] = rows[0][:_SHARED]
    return rows


def _served(cache: RowCache, rows: Sequence[list[int]]) -> tuple[list[Tensor], Tensor]:
    """Logits (up to 1 + _STEPS, V) of each row, decoded, and of the first one, read in one pass."""
    groups = [[0, 1], [2]]
    if cache.mergeable:
        groups = [[0, 1, 2]]
    logits: list[list[Tensor]] = [[] for _ in rows]
    for members in groups:
        begun = [row for row in members if row != 1]  # which is a branch of the first one
        parents = [begun.index(row if row != 1 else 0) for row in members]
        cache.join(cache.prefill([rows[row][: _PROMPTS[row]] for row in begun]))
        _note(logits, members, cache.logits[parents])
        cache.forward([rows[row][_PROMPTS[row]] for row in begun])
        _note(logits, members, cache.logits[parents])
        if 0 in members:  # while others decode, which must not disturb them
            at_once = _at_once(cache, rows[0])
        cache.keep(parents)
        staying = members
        for step in range(1, _STEPS):
            if step == _LEAVING and cache.mergeable:  # with what pads the shorter one
                cache.keep([2])
                staying = [2]
            cache.forward([rows[row][_PROMPTS[row] + step] for row in staying])
            _note(logits, staying, cache.logits)
        cache.clear()
    return list(map(torch.stack, logits)), at_once


def _note(logits: Sequence[list[Tensor]], members: Sequence[int], step: Tensor) -> None:
    for row, of_row in zip(members, step, strict=True):
        logits[row].append(of_row)


def _at_once(cache: RowCache, row: list[int]) -> Tensor:
    [prompt] = cache.prefill([row[: _PROMPTS[0]]])
    first = prompt.logits[None]
    _, following = cache.read_on(prompt, row[_PROMPTS[0] :])
    return torch.cat([first, following]).float()
