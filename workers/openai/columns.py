"""What vLLM's plugin `cocoa-vllm` tells in columns of top log-probs: see docker/vllm/README.md."""

from collections.abc import Mapping
from dataclasses import replace

from models.errors import InvalidLogits
from models.probes.distance import DOMAIN_PERCENTILE
from models.probes.domain import is_beyond
from models.records import Array, ProbeReading
from workers.client import Refused
from workers.openai.found import Columns, OpenAIServer
from workers.openai.model_calls import ModelCalls
from workers.openai.replies import (
    ENTROPY_COLUMN,
    FIRST_FURTHER_COLUMN,
    MARK_COLUMN,
    Choice,
    sentinel,
)
from workers.openai.requests import Prompt
from workers.probe_reading import is_sound
from workers.protocol import ProbeInfo
from workers.standing import ChangedModel

FORMAT = 1
# Columns of the mode "identity": mark, format, light, number of probes, revision, then each probe,
# and the prompts of a calibration.
_FORMAT, _LIGHT, _NUM_PROBES, _REVISION, _PROBES = 1, 2, 3, 4, 7
_REVISION_SIZE, _PROBE_SIZE, _PROMPTS_SIZE = 3, 4, 4
_MOST_PROBES = 8
_LEAST_TOP = 4
# Where the prompt is to be compared a mode's name ends so, and has further columns: a mark of what
# it is compared with, and its percentile.
_WITH_PROMPT, _PROMPT_COLUMNS = "+prompt", 2
_PROMPTS_MARK_DIGITS = 6
# A number that was not finite.
_NO_NUMBER = -9998.0
_NO_LIGHT = {
    0: "",
    1: "its plugin has no probes",
    2: "vLLM does not show those of this model",
    3: "not with speculative decoding",
    4: "not with pipeline or context parallelism",
    5: "not with its --logprobs-mode",
}


async def read_columns(calls: ModelCalls, prompt: Prompt) -> Columns | None:
    """What the plugin says of itself; None where there is none, or one of another format."""
    told = await _identity(calls, prompt, calls.can.logprobs or 0)
    needed = _columns_of(_number(told, _NUM_PROBES))
    if told and needed > len(told):
        told = await _identity(calls, prompt, needed) or told
    if _number(told, _FORMAT) != FORMAT:
        return None
    end = _columns_of(_number(told, _NUM_PROBES)) - _PROMPTS_SIZE
    probes = [_digits(told, first, _PROBE_SIZE) for first in range(_PROBES, end, _PROBE_SIZE)]
    untold = "for a reason that its plugin does not tell"
    return Columns(
        mark=_number(told, MARK_COLUMN),
        revision=_digits(told, _REVISION, _REVISION_SIZE),
        probes=tuple(filter(None, probes)),
        no_light=_NO_LIGHT.get(_number(told, _LIGHT), untold),
        prompts=_digits(told, end, _PROMPTS_SIZE),
    )


async def _identity(calls: ModelCalls, prompt: Prompt, top: int) -> Mapping[str, float]:
    """The columns of the mode "identity", as far as so many likeliest tokens hold them."""
    if not calls.can.reads_given or top < _PROBES:
        return {}
    top = min(top, _columns_of(_MOST_PROBES))
    choices = await calls.try_complete(prompt, max_tokens=1, top=top, mode="identity")
    tops = choices[0].tops if choices else None
    return tops[0] if tops else {}


def _columns_of(num_probes: int) -> int:
    """Columns of the mode "identity"."""
    return _PROBES + _PROBE_SIZE * num_probes + _PROMPTS_SIZE


def _number(told: Mapping[str, float], column: int) -> int:
    return round(told.get(sentinel(column), 0.0))


def _digits(told: Mapping[str, float], first: int, num: int) -> str:
    """Hexadecimal digits, four a column; "" where all of them are 0."""
    columns = range(first, first + num)
    digits = "".join(f"{_number(told, column) & 0xFFFF:04x}" for column in columns)
    return digits if digits.strip("0") else ""


def with_known(can: OpenAIServer, probes: Mapping[str, ProbeInfo], prompts: str) -> OpenAIServer:
    """The server with those of the probes and prompts that a deployment knows which it reads.

    Args:
        can: with what its plugin says of itself.
        probes: that are known, by the statistic that each predicts.
        prompts: sha256 of those that are known; "" for none.

    Raises:
        Refused: its weights have another revision than the deployment says.
    """
    if (columns := can.columns) is None:
        return can
    if can.revision and columns.revision and not can.revision.startswith(columns.revision):
        raise Refused("its weights have another revision than the settings say")
    read = {}
    if not columns.no_light:
        read = {name: one for name, one in probes.items() if _place_of(columns, one) is not None}
    is_compared = columns.prompts and prompts.startswith(columns.prompts)
    return replace(can, probes=read, prompts=prompts if is_compared else "")


def _place_of(columns: Columns, probe: ProbeInfo) -> int | None:
    """Which of the plugin's probes this one is; None for none."""
    for place, digits in enumerate(columns.probes):
        if probe.sha256.startswith(digits):
            return place
    return None


def mode_of(can: OpenAIServer, statistics: frozenset[str]) -> tuple[str, int]:
    """The plugin's mode for an answer of which these are wanted, and how many columns it has.

    Every answer has at least its mark and entropies, by which other weights are noticed.
    """
    if can.columns is None:
        return "", 0
    mode, num_columns = "entropy", FIRST_FURTHER_COLUMN
    if statistics & can.probes.keys():
        mode, num_columns = "light", max(_LEAST_TOP, num_columns + 2 * len(can.columns.probes))
    if can.prompts:
        return mode + _WITH_PROMPT, num_columns + _PROMPT_COLUMNS
    return mode, num_columns


async def is_prompt_foreign(calls: ModelCalls, prompt: Prompt) -> bool:
    """What `is_foreign` says of a prompt whose answer is given: by one token of the server's."""
    if not calls.can.prompts:
        return False
    mode, top = mode_of(calls.can, frozenset())
    [choice] = await calls.complete(prompt, max_tokens=1, top=top, mode=mode)
    return is_foreign(choice, calls.can)


def is_foreign(choice: Choice, can: OpenAIServer) -> bool:
    """Whether the first token says that its prompt is unlike those of the calibration.

    Raises:
        ChangedModel: the answer is of other weights than those that were tried out, or was compared
            with other prompts.
        InvalidLogits: an entropy is no number, so the model's logits were none.
    """
    compared = choice.column(FIRST_FURTHER_COLUMN)
    wanted = int(can.prompts[:_PROMPTS_MARK_DIGITS] or "0", 16)
    if can.columns is None or _last(choice.column(MARK_COLUMN)) != can.columns.mark:
        raise ChangedModel
    if can.prompts and _last(compared) != wanted:
        raise ChangedModel
    check_entropies(choice)
    percentile = choice.column(FIRST_FURTHER_COLUMN + 1)
    return bool(can.prompts) and (percentile is None or is_beyond(float(percentile[0])))


def check_entropies(choice: Choice) -> None:
    """Refuse an answer with an entropy that is no number.

    Raises:
        InvalidLogits: there is one, so the model's logits were none.
    """
    column = choice.column(ENTROPY_COLUMN)
    if column is not None and (column < _NO_NUMBER).any():
        raise InvalidLogits("the language model returned NaN or infinite logits")


def readings_of(
    choice: Choice, can: OpenAIServer, statistics: frozenset[str]
) -> dict[str, ProbeReading]:
    """What the last token says that each wanted probe reads of the whole answer.

    A reading that is no number, or out of its range, is left out.
    """
    readings: dict[str, ProbeReading] = {}
    first_probe = FIRST_FURTHER_COLUMN + _PROMPT_COLUMNS * bool(can.prompts)
    for statistic in statistics & can.probes.keys():
        place = None if can.columns is None else _place_of(can.columns, can.probes[statistic])
        if place is None:
            continue
        value, percentile = (choice.column(first_probe + 2 * place + i) for i in (0, 1))
        if value is None or percentile is None or not len(value):
            continue
        reading, far = float(value[-1]), float(percentile[-1])
        if is_sound(reading, far):
            readings[statistic] = ProbeReading(reading, far, out_of_domain=far > DOMAIN_PERCENTILE)
    return readings


def _last(column: Array | None) -> int | None:
    """What the last token's column says; None where it says nothing."""
    return None if column is None or not len(column) else round(float(column[-1]))
