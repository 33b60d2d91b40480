"""Pure: what an ask may not want of the model that is here, and what it gets instead."""

from collections.abc import Sequence
from dataclasses import replace

from app.scoring.ask import Ask
from app.scoring.defaults import OF_SUPPORT
from app.scoring.limits import AskLimits, check_distinct, check_format, check_reasoning
from models.engines.protocol import check_no_images
from models.errors import InvalidRequest
from models.images import DATA, images_of, num_bytes
from models.records import SamplingParams
from workers.protocol import GeneratorInfo


def fitted_to(ask: Ask, generator: GeneratorInfo) -> Ask:
    """The ask as this generator can answer it, which the result then says.

    Where it answers by draws alone, the answer is one of the samples. Where it parts calls of tools
    from text itself, their tokens may not be known: samples are drawn, and consistency is reported.
    """
    if generator.no_greedy and ask.answer is None and ask.strategy == "greedy" and not ask.light:
        ask = replace(ask, strategy="sample")
    if generator.parts_calls and ask.tools and ask.of_tokens:
        most = max(ask.sampling.num_samples, SamplingParams().num_samples)
        sampling, primary = replace(ask.sampling, num_samples=most), ask.primary or OF_SUPPORT
        ask = replace(ask, of_tokens=False, sampling=sampling, primary=primary)
    return ask


def check_generator(
    ask: Ask, estimators: Sequence[str], generator: GeneratorInfo, limits: AskLimits | None
) -> None:
    """Refuse what the model here does not do.

    Args:
        ask: that may want it.
        estimators: that are scored.
        generator: that is asked.
        limits: of images; None for no bounds.

    Raises:
        InvalidRequest: names the field, and why.
    """
    check_reasoning(ask, generator.no_reasoning_limit)
    if ask.sampling.distinct:
        check_distinct(ask, estimators, generator.no_distinct)
    if ask.grammar is not None:
        check_format(ask, generator.no_grammar)
    if ask.num_tops:
        check_tops(ask, generator)
    if ask.has_images:
        check_images(ask, generator.no_images, limits)


def check_tops(ask: Ask, generator: GeneratorInfo) -> None:
    """Refuse likeliest tokens that are not told of the texts that are shown.

    Args:
        ask: that wants some.
        generator: that is asked.

    Raises:
        InvalidRequest: says why.
    """
    if ask.strategy not in ("greedy", "sample"):
        message = f"are told of greedy and of drawn answers: {ask.strategy} chooses among samples"
        raise InvalidRequest(message, field="num_tops")
    if ask.num_tops > generator.max_tops:
        message = f"must be at most {generator.max_tops} with the model here"
        if not generator.max_tops:
            message = "the model here tells no likeliest tokens"
        raise InvalidRequest(message, field="num_tops")
    if any(ask.shown) and "sample_token_logprobs" not in generator.statistics:
        reason = generator.absent.get("sample_token_logprobs", "the model here tells none")
        message = f"are told of greedy answers alone, at temperature 0: {reason}"
        raise InvalidRequest(message, field="num_tops")


def check_images(ask: Ask, no_images: str, limits: AskLimits | None) -> None:
    """Refuse images that nobody looks at, too many or too large ones, and those that are elsewhere.

    Args:
        ask: with images.
        no_images: why the model here takes none; "" where it does.
        limits: of their number and size; None for no bounds.

    Raises:
        InvalidRequest: names the image, or the field that they do not go with, and why.
    """
    num_urls = 0
    for number, (field, url) in enumerate(images_of(ask.messages or ())):
        check_no_images([field], no_images)
        if limits is None:
            continue
        if number >= limits.max_images:
            raise InvalidRequest(f"at most {limits.max_images} images are taken", field=field)
        if url.startswith(DATA) and num_bytes(url) > limits.max_image_bytes:
            message = f"an image may have at most {limits.max_image_bytes} bytes"
            raise InvalidRequest(message, field=field)
        num_urls += not url.startswith(DATA)
        if num_urls > limits.max_image_urls:
            message = f"at most {limits.max_image_urls} images are fetched here: send data: URLs"
            raise InvalidRequest(message, field=field)
    if ask.tools:
        raise InvalidRequest("cannot be shown beside images", field="tools")
