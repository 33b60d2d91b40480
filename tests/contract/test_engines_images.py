"""The contract of engines: images in a chat are looked at, or refused by their place."""

import pytest

from models.errors import InvalidRequest
from tests.contract.generators import asked
from tests.unit.workers.openai.test_images import image, showing

pytestmark = pytest.mark.anyio


async def test_images_are_looked_at_or_refused_with_the_reason(generator):
    request = asked(generator, prompt=None, messages=showing(image()).messages)
    try:
        generation = await generator.generate(request)
    except InvalidRequest as refused:
        assert refused.field == "messages.0.content.0.image_url.url"
        assert (generator.info.no_images or "status 400") in refused.message
        return
    assert not generator.info.no_images
    assert generation.answer.num_tokens > 0
    assert len(generation.samples) == request.num_samples
