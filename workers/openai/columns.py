"""What vLLM's plugin `cocoa-vllm` tells in columns of top log-probs: see docker/vllm/README.md."""

from collections.abc import Mapping

from models.errors import InvalidLogits
from models.probes.distance import DOMAIN_PERCENTILE
from models.records import ProbeReading
from workers.calls import Calls
from workers.openai.capabilities import Capabilities, Columns
from workers.openai.replies import (
    ENTROPY_COLUMN,
    FIRST_PROBE_COLUMN,
    MARK_COLUMN,
    Choice,
    read_choices,
    sentinel,
)
from workers.openai.requests import COMPLETIONS, Prompt, completion
from workers.probe_reading import is_sound
from workers.protocol import ProbeInfo

FORMAT = 1
# Columns of the mode "identity": mark, format, light, number of probes, revision, then each probe.
_FORMAT, _LIGHT, _NUM_PROBES, _REVISION, _PROBES = 1, 2, 3, 4, 7
_REVISION_SIZE, _PROBE_SIZE = 3, 4
_MOST_PROBES = 8
_LEAST_TOP = 4
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


async def read_columns(calls: Calls, can: Capabilities, prompt: Prompt) -> Columns | None:
    """What the plugin says of itself; None where there is none, or one of another format."""
    most = can.logprobs or 0
    if prompt.ids is None or not can.tells_logprobs or most < _PROBES:
        return None
    top = min(most, _PROBES + _PROBE_SIZE * _MOST_PROBES)
    body = completion(can, prompt, max_tokens=1, top=top, mode="identity")
    reply = await calls.try_post(COMPLETIONS, body)
    if reply is None or not (tops := read_choices(reply, 1)[0].tops):
        return None
    told = tops[0]
    if round(told.get(sentinel(_FORMAT), 0.0)) != FORMAT:
        return None
    num_probes = round(told.get(sentinel(_NUM_PROBES), 0.0))
    light = round(told.get(sentinel(_LIGHT), 0.0))
    probes = []
    for i in range(num_probes):
        if probe := _digits(told, _PROBES + _PROBE_SIZE * i, _PROBE_SIZE):
            probes.append(probe)
    return Columns(
        mark=round(told.get(sentinel(MARK_COLUMN), 0.0)),
        revision=_digits(told, _REVISION, _REVISION_SIZE),
        probes=tuple(probes),
        no_light=_NO_LIGHT.get(light, "for a reason that its plugin does not tell"),
    )


def probes_read(columns: Columns, known: Mapping[str, ProbeInfo]) -> dict[str, ProbeInfo]:
    """Those of the probes that this deployment knows which the plugin reads, by statistic."""
    if columns.no_light:
        return {}
    return {name: one for name, one in known.items() if place_of(columns, one) is not None}


def place_of(columns: Columns, probe: ProbeInfo) -> int | None:
    """Which of the plugin's probes this one is; None for none."""
    for place, digits in enumerate(columns.probes):
        if probe.sha256.startswith(digits):
            return place
    return None


def mode_of(
    can: Capabilities, probes: Mapping[str, ProbeInfo], statistics: frozenset[str]
) -> tuple[str, int]:
    """The plugin's mode for an answer of which these are wanted, and how many columns it has.

    Every answer has at least its mark and entropies, by which other weights are noticed.
    """
    if can.columns is None:
        return "", 0
    if statistics & probes.keys():
        return "light", max(_LEAST_TOP, FIRST_PROBE_COLUMN + 2 * len(can.columns.probes))
    return "entropy", FIRST_PROBE_COLUMN


def mark_of(choice: Choice) -> int | None:
    """What the last token says of the weights; None where it says nothing."""
    column = choice.column(MARK_COLUMN)
    if column is None or not len(column):
        return None
    return round(float(column[-1]))


def check_entropies(choice: Choice) -> None:
    """Refuse an answer with an entropy that is no number.

    Raises:
        InvalidLogits: there is one, so the model's logits were none.
    """
    column = choice.column(ENTROPY_COLUMN)
    if column is not None and (column < _NO_NUMBER).any():
        raise InvalidLogits("the language model returned NaN or infinite logits")


def readings_of(
    choice: Choice,
    columns: Columns,
    probes: Mapping[str, ProbeInfo],
    statistics: frozenset[str],
) -> dict[str, ProbeReading]:
    """What the last token says that each wanted probe reads of the whole answer.

    A reading that is no number, or out of its range, is left out.
    """
    readings = {}
    for statistic, probe in probes.items():
        place = place_of(columns, probe)
        if statistic not in statistics or place is None:
            continue
        first = FIRST_PROBE_COLUMN + 2 * place
        value, percentile = choice.column(first), choice.column(first + 1)
        if value is None or percentile is None or not len(value):
            continue
        reading, far = float(value[-1]), float(percentile[-1])
        if is_sound(reading, far):
            readings[statistic] = ProbeReading(reading, far, out_of_domain=far > DOMAIN_PERCENTILE)
    return readings


def _digits(told: Mapping[str, float], first: int, num: int) -> str:
    """Hexadecimal digits, four a column; "" where all of them are 0."""
    digits = ""
    for column in range(first, first + num):
        digits += f"{round(told.get(sentinel(column), 0.0)) & 0xFFFF:04x}"
    return digits if digits.strip("0") else ""
