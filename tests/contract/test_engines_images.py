"""The contract of engines: images in a chat are looked at, or refused by their place."""

from contextlib import suppress

import pytest

from models.errors import InvalidRequest
from tests.contract.generators import asked
from tests.unit.workers.openai.test_images import image, showing

pytestmark = pytest.mark.anyio


async def test_images_are_looked_at_or_refused_with_the_reason(generator):
    request = asked(generator, prompt=None, messages=showing(image()).messages)
    with suppress(InvalidRequest):
        generation = await generator.generate(request)
        assert not generator.info.no_images
        assert generation.answer.num_tokens > 0
        assert len(generation.samples) == request.num_samples
        return
    with pytest.raises(InvalidRequest, match=generator.info.no_images or "status 400") as caught:
        await generator.generate(request)
    assert caught.value.field == "messages.0.content.0.image_url.url"
