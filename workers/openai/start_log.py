"""What a process says at its start of what its server of the language model can and cannot."""

import logging

from workers.openai.capabilities import OpenAIServer, told

logger = logging.getLogger(__name__)


def tell(server: OpenAIServer) -> None:
    """Log it, as it was tried out."""
    can = ", ".join(f"{name}={value}" for name, value in told(server.capabilities).items() if value)
    logger.info("the language model's server can: %s", can)
    cannot = [f"{', '.join(names)}: {reason}" for reason, names in _reasons(server).items()]
    if cannot:
        logger.info("the language model's server cannot: %s", "; ".join(cannot))


def _reasons(server: OpenAIServer) -> dict[str, list[str]]:
    """What it cannot, by the reason."""
    can = server.capabilities
    absent: dict[str, str | None] = dict(server.info.absent)
    absent |= {
        "max_reasoning_tokens": can.no_reasoning_limit,
        "response_format": can.no_grammar,
        "tools that may be called or not": can.no_lark,
        "log-probs under a response_format": can.unmasked,
        "images": can.no_images,
    }
    found: dict[str, list[str]] = {}
    for name, reason in absent.items():
        if reason:
            found.setdefault(reason, []).append(name)
    return found
