"""Numbers that a server returns with its tokens: log-probs, if they are valid, and columns. Pure.

Columns are those of the plugin `cocoa-vllm` (docker/vllm/README.md), among the likeliest tokens, by
the names of ids that no vocabulary has.
"""

import re
from bisect import bisect_left
from codecs import getincrementaldecoder
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import exp

import numpy as np

from models.engines.texts import cut_at_stop
from models.errors import InvalidLogits
from models.probes.domain import DOMAIN_PERCENTILE
from models.ranges import LOGPROBS
from models.records import Array, ProbeReading
from workers.protocol import ProbeInfo
from workers.remote.standing import ChangedModel

# T times the likeliest tokens of a place, by name; None where a server returns none.
Tops = Sequence[Mapping[str, float]] | None

FORMAT, FIRST_ID = 2, 2_000_000_000
_MARK, ENTROPY, _FIRST_PROBE = 0, 1, 2
# Of an `identity`: columns beside those of probes, and hexadecimal digits of one.
LEAST_IDENTITY, _DIGITS = 6, 6
# The beginning of the name of each column, and of no token.
_COLUMN = f"token_id:{FIRST_ID // 1000}"
# In place of a number that is not finite; vLLM and OpenAI write it in place of the log-prob of what
# has no probability.
MISSING = -9999.0
# By how much probabilities and log-probs may be off that were rounded to two bytes: at least so
# much, and log-probs by so large a part of them.
_ROUNDING, _PART = 0.02, 0.01
# Pieces that are ids, bytes, halves of code points or a vocabulary's own spellings, not text.
_NO_TEXT = re.compile(r"token_id:|bytes:|<0x[0-9A-F]{2}>|[\ufffd\u2581\u0120\u010a]")
# How vocabularies spell bytes and blanks: `bytes_to_unicode` of GPT-2, and SentencePiece's.
_SIGNS = dict(zip(range(256, 324), (*range(33), *range(127, 161), 173), strict=True)) | {0x2581: 32}
_BYTE = re.compile("<0x([0-9A-F]{2})>")

NO_NUMBER = "the server told a log-prob that is none"
BEYOND_ONE = "the likeliest tokens that the server told have a probability above 1 together"
ABOVE_LIKELIEST = "the server told a chosen token as likelier than the likeliest in its place"
UNCOVERED = "the tokens that the server told log-probs of are not those of the text, or not all"
ALL_ZERO = "the server told log-probs of 0 alone"
NO_LIGHT = {
    0: "",
    1: "its plugin has no probes",
    2: "vLLM does not show those of this model",
    3: "not with speculative decoding",
    4: "not with pipeline or context parallelism",
    5: "not with its --logprobs-mode",
}


@dataclass(frozen=True, slots=True)
class Columns:
    """The plugin of a server."""

    mark: int  # changes with weights and probes
    revision: str  # of the weights, its first digits; "" where the plugin knows none
    probes: tuple[str, ...]  # first digits of their sha256, in the order of their columns
    no_light: str = ""  # why there are no probes' columns; "" where there are

    def places(self, known: Mapping[str, ProbeInfo]) -> dict[str, int]:
        """The index of each known probe among the plugin's, by the statistic that it predicts."""
        places: dict[str, int] = {}
        for name, probe in known.items():
            for place, digits in enumerate(self.probes):
                if probe.sha256.startswith(digits):
                    places.setdefault(name, place)
        return places

    def mode(self, *, reads_probes: bool) -> tuple[str, int]:
        """The mode that a request opts into, and the number of its columns.

        Each has at least the mark and entropies, by which other weights are noticed.
        """
        if not reads_probes:
            return "entropy", _FIRST_PROBE
        return "light", _FIRST_PROBE + 2 * len(self.probes)

    def check_mark(self, tops: Tops) -> None:
        """Refuse an answer of other weights than those that were tried out.

        Raises:
            ChangedModel: it is.
            InvalidLogits: an entropy is no number, so the model's logits were none.
        """
        marks, entropies = column(tops, _MARK), column(tops, ENTROPY)
        if marks is None or not (marks.round() == self.mark).all():
            raise ChangedModel
        if entropies is not None and (entropies <= MISSING).any():
            raise InvalidLogits("the language model returned NaN or infinite logits")

    def readings(self, tops: Tops, known: Mapping[str, ProbeInfo]) -> dict[str, ProbeReading]:
        """Each known probe's reading of the whole answer, by the columns of the last token.

        A reading that is no number, or out of its range, is left out.
        """
        readings: dict[str, ProbeReading] = {}
        for statistic, place in self.places(known).items():
            first = _FIRST_PROBE + 2 * place
            value, percentile = column(tops, first), column(tops, first + 1)
            if value is None or percentile is None or not len(value):
                continue
            far = float(percentile[-1])
            reading = ProbeReading(float(value[-1]), far, out_of_domain=far > DOMAIN_PERCENTILE)
            if reading.is_sound:
                readings[statistic] = reading
        return readings


def identity_in(tops: Tops) -> Columns | None:
    """The plugin by a reply to mode "identity"; None where there is none, or of another format."""
    if not tops:
        return None
    values, first = [], tops[0]
    for name in map(_name, range(len(first))):
        if name in first:
            values.append(round(first[name]))
    if len(values) < LEAST_IDENTITY or values[1] != FORMAT:
        return None
    mark, _, light, _, *digits = values
    words = "".join(f"{one:0{_DIGITS}x}" for one in digits)
    revision, *probes = [words[i : i + 2 * _DIGITS] for i in range(0, len(words), 2 * _DIGITS)]
    if not revision.strip("0"):
        revision = ""
    no_light = NO_LIGHT.get(light, "for a reason that its plugin does not tell")
    return Columns(mark, revision, tuple(probes), no_light)


def column(tops: Tops, index: int) -> Array | None:
    """The column (T,) of this index; None where a token lacks it."""
    if tops is None:
        return None
    values, name = [], _name(index)
    for top in tops:
        if name not in top:
            return None
        values.append(top[name])
    return np.array(values)


def without_columns(tops: Tops) -> Sequence[Mapping[str, float]]:
    """The likeliest tokens alone."""
    if not tops or _name(_MARK) not in tops[0]:
        return tops or ()
    likeliest = []
    for top in tops:
        likeliest.append({n: one for n, one in top.items() if not n.startswith(_COLUMN)})
    return likeliest


def _name(index: int) -> str:
    return f"token_id:{FIRST_ID + index}"


def unsound(
    logprobs: Array, tokens: Sequence[str] = (), tops: Iterable[Mapping[str, float]] = ()
) -> str:
    """The reason why these are no log-probs of a text's tokens; "" where they may be.

    Args:
        logprobs: (T,) of the chosen ones, NaN where there is none.
        tokens: (T,) names of these.
        tops: T times those of the likeliest, by name; nothing where there are none.
    """
    if not all(MISSING < one <= LOGPROBS[1] for one in logprobs.tolist()):
        return NO_NUMBER
    for logprob, token, likeliest in zip(logprobs.tolist(), tokens, tops, strict=False):
        if not likeliest:
            continue
        most = max(likeliest.values())
        if most > LOGPROBS[1] or sum(map(exp, likeliest.values())) > 1.0 + _ROUNDING:
            return BEYOND_ONE
        most = most * (1.0 - _PART) + _ROUNDING
        if logprob > most and token not in likeliest:  # several tokens may have one name
            return ABOVE_LIKELIEST
    return ""


def are_of(texts: Sequence[str] | None, text: str, *, is_cut: bool) -> bool | None:
    """True where tokens' texts join to the text, blanks aside; None where that cannot be decided.

    A last token or stop string that ended the text is no part of it. One that `is_cut` ended at its
    limit, so that nothing stands behind it.
    """
    if texts is None or any(map(_NO_TEXT.search, texts)):
        return None
    shown, wanted = _without_blanks("".join(texts)), _without_blanks(text)
    if is_cut:
        return shown == wanted
    return shown.startswith(wanted)


def num_up_to(stop: tuple[str, ...], texts: Sequence[str]) -> int | None:
    """The number of tokens up to the one that completes a stop string; None where none does."""
    whole = "".join(texts)
    if cut_at_stop(whole, stop) is None:
        return None
    ends = list(accumulate(map(len, texts)))
    return 1 + bisect_left(ends, True, key=lambda end: cut_at_stop(whole[:end], stop) is not None)


def num_ended(
    texts: Sequence[str], text: str, stop: tuple[str, ...], *, reasoning: str = ""
) -> int | None:
    """The number of tokens of a text and of what ended it; None where their texts do not tell it.

    A server that decodes several tokens at once may list some behind the end. Of a `reasoning` that
    stands apart it may list the tokens, too.

    >>> num_ended(["\u0120It", "\u0120is", "</s>", "\u0120and"], "It is", stop=())
    3
    """
    texts = spelt_out(texts, text)
    num = num_up_to(stop, texts)
    before = cut_at_stop("".join(texts), stop) or ""
    if num is not None and before.strip().endswith(text.strip()):
        return num
    shown, wanted, begin = _without_blanks("".join(texts)), _without_blanks(text), 0
    if thought := _without_blanks(reasoning):
        _, _, behind = shown.partition(thought)
        begin = behind.find(wanted) + len(shown) - len(behind)
    if (reasoning and not wanted) or not shown.startswith(wanted, begin):
        return None
    num_left = begin + len(wanted)
    for num, shown in enumerate(texts, 1):
        if num_left <= 0 and (shown == "" or shown.strip()):  # else a blank before the end
            return num
        num_left -= len(_without_blanks(shown))
    return len(texts)


def spelt_out(texts: Sequence[str], text: str) -> Sequence[str]:
    """Texts of tokens, for those in a vocabulary's own spelling if they then hold the text."""
    plain = re.sub("[\u0120\u2581]", " ", "\0".join(texts)).replace("<0x0A>", "\n").split("\0")
    decoder, read = getincrementaldecoder("utf-8")("replace"), []
    for token in texts:
        signs = _BYTE.sub(lambda byte: chr(int(byte[1], 16)), token).translate(_SIGNS)
        read.append(decoder.decode(signs.encode("latin-1", "replace")))
    for one in (read, plain):
        if _without_blanks(text) in _without_blanks("".join(one)):
            return one
    return texts


def _without_blanks(text: str) -> str:
    return "".join(text.split())
