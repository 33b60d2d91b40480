"""Where images stand in messages, and how large they are."""

import base64

import pytest

from models.images import as_sent, images_of, num_bytes

TEXT = {"type": "text", "text": "What is this?"}
RED = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
FAR = {"type": "image_url", "image_url": {"url": "https://example.com/a.png", "detail": "low"}}
PLAIN = {"role": "user", "content": "Hi"}
SHOWN = {"role": "user", "content": "What is this?", "parts": [RED, TEXT, FAR]}


def test_each_image_is_found_by_its_place():
    assert list(images_of([PLAIN, SHOWN])) == [
        ("messages.1.content.0.image_url.url", RED["image_url"]["url"]),
        ("messages.1.content.2.image_url.url", FAR["image_url"]["url"]),
    ]


def test_a_message_is_sent_as_it_came():
    assert as_sent(SHOWN) == {"role": "user", "content": [RED, TEXT, FAR]}
    assert as_sent(PLAIN) == PLAIN


@pytest.mark.parametrize("size", [0, 1, 2, 3, 1000])
def test_bytes_are_counted_without_decoding_them(size):
    encoded = base64.b64encode(bytes(size)).decode()
    assert num_bytes(f"data:image/png;base64,{encoded}") == size
