"""Calls of OpenAI's endpoints."""

import pytest

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
QUESTION = "What is the capital of France?"
INPUTS = {CHAT: {"messages": [{"role": "user", "content": QUESTION}]}, TEXT: {"prompt": QUESTION}}
both = pytest.mark.parametrize("path", [CHAT, TEXT], ids=["chat", "text"])


async def post(service, path, **body):
    """POST a body with an input unless it has one."""
    given = {"model": "cocoa", "max_tokens": 64} | body
    if not {"messages", "prompt"} & body.keys():
        given |= INPUTS[path]
    return await service.client.post(path, json=given)


async def answered(service, path, **body):
    response = await post(service, path, **body)
    assert response.status_code == 200, response.text
    return response.json()


def text_of(body):
    [choice] = body["choices"]
    return choice["message"]["content"] if "message" in choice else choice["text"]


def said_at(path, text):
    """What an answer is called at a path: a message begins without the blank of its first word."""
    return text.removeprefix(" ") if path == CHAT else text


def uncertainty_of(body):
    return body["choices"][0]["uncertainty"]
