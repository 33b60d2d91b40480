"""What a server says of itself in the list of its models, and of its version."""

from collections.abc import Mapping
from typing import Any

from workers.calls import Calls, Failed, Rejected
from workers.client import Client, Refused, Unreachable
from workers.openai.capabilities import LARGEST_VOCABULARY, UNKNOWN_CONTEXT, Capabilities


def as_said(entry: Mapping[str, Any], version: str) -> Capabilities:
    """What a server says of itself in the entry of its model, each in its own way."""
    meta = entry.get("meta")
    if not isinstance(meta, Mapping):
        meta = {}
    lengths = (
        entry.get("max_model_len"),
        meta.get("n_ctx"),
        entry.get("context_length"),
        entry.get("context_window"),
        meta.get("n_ctx_train"),
    )
    return Capabilities(
        model_id=entry["id"],
        root=str(entry.get("root") or ""),
        version=version,
        max_context_tokens=_first_count(*lengths, UNKNOWN_CONTEXT),
        vocabulary_size=_first_count(meta.get("n_vocab"), LARGEST_VOCABULARY),
    )


def _first_count(*said: Any) -> int:
    """The first of these that is a positive integer, which the last one is."""
    return next(one for one in said if type(one) is int and one > 0)


async def version_of(client: Client) -> str:
    """Of the server's program, where it says so as vLLM does."""
    try:
        version = (await Calls(client, is_trial=True).get("/version"))["version"]
    except (Rejected, Failed, Unreachable, Refused, LookupError, TypeError):
        return ""
    return version if isinstance(version, str) else ""
