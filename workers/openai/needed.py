"""What not every request needs of a server: tried out when one first does, else refused."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from models.errors import InvalidRequest
from models.images import images_of
from models.records import GenerationRequest, SamplingParams
from models.statistics import supplied_by
from workers.calls import Calls
from workers.openai.capabilities import Capabilities
from workers.openai.formats import no_lark, under_schema
from workers.openai.images import no_images
from workers.openai.limiting import no_reasoning_limit
from workers.openai.prompts import render
from workers.openai.replies import read_choices
from workers.openai.requests import completion, drawn

_HOT = SamplingParams(temperature=2.0, top_k=0, top_p=1.0)
# Statistics that log-probs under a grammar tell.
_READ_BY_TOKEN = supplied_by("answer", "samples") - {"sample_texts"}
# Two of one seed are equal where it is heeded, and others are not.
_SEEDS, _NUM_TOKENS = (3, 3, 4, 5), 8


async def heeds_seed(calls: Calls, can: Capabilities) -> dict[str, bool]:
    """Whether a seed decides what is drawn."""
    prompt = await render(calls, can, GenerationRequest("The three primary colours are"))
    texts = []
    for seed in _SEEDS:
        body = drawn(can, completion(can, prompt, max_tokens=_NUM_TOKENS), _HOT, num=1, seed=seed)
        if (reply := await calls.try_post(prompt.path, body)) is None:
            return {"heeds_seed": False}
        texts.append(read_choices(reply, 1)[0].text)
    one, again, *others = texts
    return {"heeds_seed": one == again and any(other != one for other in others)}


# By the field of `Capabilities`; each tells that one, and maybe others.
_TRIALS: Mapping[str, Callable[[Calls, Capabilities], Awaitable[Mapping[str, Any]]]] = {
    "no_grammar": under_schema,
    "no_lark": no_lark,
    "unmasked": under_schema,
    "no_images": no_images,
    "no_reasoning_limit": no_reasoning_limit,
    "heeds_seed": heeds_seed,
}


def untried(can: Capabilities, request: GenerationRequest) -> list[str]:
    """Fields of `Capabilities` that a request needs to be known, and are not."""
    return [name for name in _needed(request) if getattr(can, name) is None]


async def tried_out(calls: Calls, can: Capabilities, request: GenerationRequest) -> Capabilities:
    """What the server can, with all that a request needs to be known."""
    for name in untried(can, request):
        if getattr(can, name) is None:  # none before has told it
            can = replace(can, **await _TRIALS[name](calls, can))
    return can


def check_heeded(can: Capabilities, request: GenerationRequest) -> None:
    """Refuse what the server does not heed; it has been tried out.

    Raises:
        InvalidRequest: names the field, and why.
    """
    for name, field in _needed(request).items():
        if field and (reason := getattr(can, name)):
            raise InvalidRequest(f"is not heeded here: {reason}", field=field)


def _needed(request: GenerationRequest) -> dict[str, str]:
    """Fields of `Capabilities`, with that of the request; "" for one that is not refused by it."""
    found, sampling = {}, request.sampling
    if request.grammar is not None:
        found["no_grammar" if request.grammar.kind == "json_schema" else "no_lark"] = "grammar"
        if request.statistics & _READ_BY_TOKEN:
            found["unmasked"] = ""
    if any(True for _ in images_of(request.messages or ())):
        found["no_images"] = ""  # whoever renders the prompt names the image
    if sampling.seed is not None and request.num_samples:
        found["heeds_seed"] = ""
    for field in ("max_sample_reasoning_tokens", "max_reasoning_tokens"):
        if getattr(sampling, field) is not None:
            found["no_reasoning_limit"] = field
    return found
