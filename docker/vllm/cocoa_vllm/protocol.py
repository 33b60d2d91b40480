"""What a request may ask for, and what the worker tells of what it has loaded. No torch here."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

FORMAT = 1
# Hexadecimal digits a column: integers below 65,536 are exact in every precision of a log-prob.
_DIGITS = 4
REVISION_DIGITS, PROBE_DIGITS, PROMPTS_DIGITS = 12, 16, 16

# Why there is no Light.
READY, NO_PROBE, NO_SUPPORT, SPECULATIVE, PARALLEL, OTHER_LOGPROBS = range(6)

Mode = Literal["entropy", "light", "identity", "entropy+prompt", "light+prompt"]
MODES: tuple[Mode, ...] = get_args(Mode)

# The key in `vllm_xargs`.
ARGUMENT = "cocoa"
# Columns that any reply of the mode may have; fewer `logprobs` would cut some of them off.
_LEAST_COLUMNS: Mapping[Mode, int] = {
    "entropy": 2,
    "light": 4,
    "identity": 7,
    "entropy+prompt": 4,
    "light+prompt": 6,
}


def mode_of(extra_args: Mapping[str, Any] | None) -> Mode | None:
    """The mode that a request opted into; None for nearly everybody."""
    wanted = extra_args.get(ARGUMENT) if extra_args else None
    return wanted if wanted in MODES else None


def is_light(mode: Mode) -> bool:
    """Whether probes read the answer."""
    return mode in ("light", "light+prompt")


def compares_prompt(mode: Mode) -> bool:
    """Whether the prompt is compared with those of a calibration."""
    return mode in ("entropy+prompt", "light+prompt")


def complaint(extra_args: Mapping[str, Any] | None, logprobs: int | None) -> str | None:
    """What is wrong with a request, in words for its sender; None for a sound one.

    Args:
        extra_args: the request's `vllm_xargs`.
        logprobs: top log-probs that it asks for; None without any, -1 for the whole vocabulary.
    """
    if not extra_args or ARGUMENT not in extra_args:
        return None
    mode = mode_of(extra_args)
    if mode is None:
        return f"vllm_xargs.{ARGUMENT} must be one of {', '.join(MODES)}"
    least = _LEAST_COLUMNS[mode]
    if logprobs == -1 or (logprobs or 0) < least:
        return f"vllm_xargs.{ARGUMENT}={mode} needs logprobs of at least {least}"
    return None


def revision_of(model: str, commit: str | None) -> str:
    """What names the model's weights, as far as the worker can tell; "" where it cannot.

    Args:
        model: path or hub id that vLLM loads.
        commit: the hub's, as the configuration tells it.
    """
    if found := re.search(r"/snapshots/([0-9a-f]{40})", model):  # the hub's cache
        return found[1]
    if not Path(model).is_dir():
        return commit or ""
    digest = hashlib.sha256()
    files = sorted(Path(model).glob("*.safetensors"))
    for path in files:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:REVISION_DIGITS] if files else ""


def mark_of(*parts: object) -> int:
    """An integer below 2**24 (exact in float32) that changes with any of the parts."""
    return int(hashlib.sha256(repr((FORMAT, *parts)).encode()).hexdigest()[:6], 16)


def identity_columns(
    mark: int, light: int, revision: str, probes: Sequence[str], prompts: str = ""
) -> tuple[float, ...]:
    """The columns of an `identity` reply.

    Args:
        mark: of `mark_of`.
        light: READY, or why not.
        revision: hexadecimal, or "".
        probes: SHA-256 of each, hexadecimal.
        prompts: that of a calibration's prompts; "" for none.
    """
    spelt = [number for sha256 in probes for number in spell(sha256, PROBE_DIGITS)]
    spelt += spell(prompts, PROMPTS_DIGITS)
    return (mark, FORMAT, light, len(probes), *spell(revision, REVISION_DIGITS), *spelt)


def spell(digits: str, count: int) -> list[float]:
    """The first `count` hexadecimal digits, filled up with zeros, four a number.

    >>> spell("57da5ac5a9c1e642", 8)
    [22490.0, 23237.0]
    """
    first = digits[:count].ljust(count, "0")
    return [float(int(first[i : i + _DIGITS], 16)) for i in range(0, count, _DIGITS)]
