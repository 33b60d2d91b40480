"""Whether a server looks at the images of a chat, tried out.

It takes one and refuses a broken one; a server that leaves images out takes both.
"""

from models.images import DATA
from workers.calls import Calls
from workers.openai.capabilities import Capabilities
from workers.openai.requests import Prompt, completion

# A red square of 64 pixels, which no model finds too small, and the same cut off.
_RED = (
    "iVBORw0KGgoAAAANSUhEUgAAAEAAAABACAIAAAAlC+aJAAAAS0lEQVR42u3PQQkAAAgAsetfWiP4FgYrsKZeS0BAQEBA"
    "QEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEDgsqnc8OJg6Ln3AAAAAElFTkSuQmCC"
)
_BROKEN = _RED[:32]
_IGNORED = "the server of the model takes images, broken ones too, so that it cannot look at them"
_REFUSED = "the server of the model takes no images"


async def no_images(calls: Calls, can: Capabilities) -> dict[str, str]:
    """Why it reads no images in chats; "" where it does."""
    if not can.chats or not await _takes(calls, can, _RED):
        return {"no_images": _REFUSED}
    if await _takes(calls, can, _BROKEN):
        return {"no_images": _IGNORED}
    return {"no_images": ""}


async def _takes(calls: Calls, can: Capabilities, encoded: str) -> bool:
    url = f"{DATA}image/png;base64,{encoded}"
    parts = [{"type": "text", "text": "Hello"}, {"type": "image_url", "image_url": {"url": url}}]
    prompt = Prompt(messages=({"role": "user", "content": parts},))
    return bool(await calls.attempt(prompt.path, completion(can, prompt, max_tokens=1)))
