"""What a request may ask for. No torch here."""

from collections.abc import Mapping
from typing import Any, Literal, get_args

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
