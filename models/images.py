"""Pure: images in the messages of a chat.

A message with images has its text as `content`, as every message has, and beside it under `PARTS`
what its client sent: `{"type": "text", "text"}` and `{"type": "image_url", "image_url": {"url"}}`
in their order. So whatever reads texts reads no images, and who shows a model images asks for them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

PARTS = "parts"
_DATA = "data:"
_BASE64 = ";base64,"


def images_of(messages: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """The place of each image in the messages, and its URL."""
    for number, message in enumerate(messages):
        for place, part in enumerate(message.get(PARTS, ())):
            if part["type"] == "image_url":
                yield f"messages.{number}.content.{place}.image_url.url", part["image_url"]["url"]


def as_sent(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message as OpenAI's clients send it."""
    plain = dict(message)
    if PARTS in plain:
        plain["content"] = plain.pop(PARTS)
    return plain


def num_bytes(url: str) -> int | None:
    """Bytes of an image that its `data:` URL holds in base64; None for one elsewhere.

    >>> num_bytes("data:image/png;base64,iVBORw==")
    4
    """
    if not url.startswith(_DATA):
        return None
    _, _, encoded = url.partition(_BASE64)
    return len(encoded) * 3 // 4 - encoded.endswith("=") - encoded.endswith("==")
