"""LangChain's ChatOpenAI and the client's ChatCocoa: prints what they got from the service as JSON.

The first drops what a choice has beyond OpenAI's fields; the second keeps it.
"""

import asyncio
import json
import sys
from typing import Literal

from cocoa_client.langchain import ChatCocoa
from langchain_openai import ChatOpenAI
from openai import UnprocessableEntityError
from pydantic import BaseModel, ConfigDict

QUESTION = "What is the capital of France?"


class City(BaseModel):
    """A city, and nothing else: the embedded model would go on."""

    model_config = ConfigDict(extra="forbid")

    name: Literal["Paris", "Lyon", "Rome"]


def summed(chunks):
    joined = chunks[0]
    for chunk in chunks[1:]:
        joined += chunk
    return joined


async def asynchronous(model):
    whole = await model.ainvoke(QUESTION)
    return whole, summed([chunk async for chunk in model.astream(QUESTION)])


def structured(settings):
    """The object and its uncertainty, and that of a stream; tools.py has the one of a call."""
    model = ChatCocoa(**settings)
    got = model.with_structured_output(City, include_raw=True).invoke(QUESTION)
    streamed = summed(list(model.stream(QUESTION, response_format=City)))
    return {
        "parsed": got["parsed"].model_dump(),
        "uncertainty": got["raw"].response_metadata["uncertainty"],
        "streamed_uncertainty": streamed.response_metadata["uncertainty"],
    }


def of_responses(settings):
    """What the same model says by `/v1/responses`, whole, in chunks and under a schema."""
    settings = {name: value for name, value in settings.items() if name != "seed"}
    model = ChatOpenAI(model="cocoa", use_responses_api=True, **settings)
    chunks = list(model.stream(QUESTION))
    return {
        "text": model.invoke(QUESTION).text,
        "streamed": summed(chunks).text,
        "parsed": model.with_structured_output(City).invoke(QUESTION).name,
    }


def main(url):
    settings = {"base_url": f"{url}/v1", "api_key": "none", "max_retries": 0, "seed": 1}
    settings |= {"max_tokens": 24, "extra_body": {"uncertainty": {"num_samples": 4}}}
    plain = ChatOpenAI(model="cocoa", **settings)
    keeping = ChatCocoa(stream_usage=True, **settings)
    light = ChatCocoa(model="cocoa:light", base_url=f"{url}/v1", api_key="none")
    drawn = ChatCocoa(temperature=0.7, **settings)
    # The embedded model takes one question alone, and the service says so.
    chat = [("system", "Be brief."), ("human", "Hello"), ("ai", "Hello!"), ("human", QUESTION)]
    refused = None
    try:
        plain.invoke(chat)
    except UnprocessableEntityError as error:
        refused = error.param
    kept, joined = keeping.invoke(QUESTION), summed(list(keeping.stream(QUESTION)))
    awaited, awaited_stream = asyncio.run(asynchronous(keeping))
    told = {
        "text": plain.invoke(QUESTION).content,
        "finish_reason": plain.invoke(QUESTION).response_metadata["finish_reason"],
        "streamed": "".join(chunk.content for chunk in plain.stream(QUESTION)),
        "refused": refused,
        "logprobs": plain.bind(logprobs=True).invoke(QUESTION).response_metadata["logprobs"],
        "uncertainty": kept.response_metadata["uncertainty"],
        "usage": kept.usage_metadata,
        "streamed_uncertainty": joined.response_metadata["uncertainty"],
        "streamed_usage": joined.usage_metadata,
        "awaited_uncertainty": awaited.response_metadata["uncertainty"],
        "awaited_stream_uncertainty": awaited_stream.response_metadata["uncertainty"],
        "light": light.invoke(QUESTION).response_metadata["uncertainty"],
        "drawn": drawn.invoke(QUESTION).response_metadata["uncertainty"],
        "structured": structured(settings),
        "responses": of_responses(settings),
    }
    print(json.dumps(told))


main(sys.argv[1])
