"""LangChain's ChatOpenAI, unmodified: prints what it got from the service as JSON.

It drops what a choice has beyond OpenAI's fields, which `WithUncertainty` keeps.
"""

import json
import sys

from langchain_openai import ChatOpenAI
from openai import UnprocessableEntityError

QUESTION = "What is the capital of France?"


class WithUncertainty(ChatOpenAI):
    """Keeps a choice's `uncertainty` in the message's `response_metadata`."""

    def _create_chat_result(self, response, generation_info=None):
        result = super()._create_chat_result(response, generation_info)
        body = response if isinstance(response, dict) else response.model_dump()
        for generation, choice in zip(result.generations, body["choices"], strict=True):
            generation.message.response_metadata["uncertainty"] = choice["uncertainty"]
        return result

    def _convert_chunk_to_generation_chunk(self, chunk, *args, **kwargs):
        generation = super()._convert_chunk_to_generation_chunk(chunk, *args, **kwargs)
        for choice in chunk.get("choices") or ():
            if generation is not None and "uncertainty" in choice:
                generation.message.response_metadata["uncertainty"] = choice["uncertainty"]
        return generation


def main(url):
    settings = {"base_url": f"{url}/v1", "api_key": "none", "max_retries": 0, "seed": 1}
    settings |= {"max_tokens": 24, "extra_body": {"uncertainty": {"num_samples": 4}}}
    plain = ChatOpenAI(model="cocoa", **settings)
    keeping = WithUncertainty(model="cocoa", stream_usage=True, **settings)
    light = WithUncertainty(model="cocoa:light", base_url=f"{url}/v1", api_key="none")
    drawn = WithUncertainty(model="cocoa", temperature=0.7, **settings)
    # The embedded model takes one question alone, and the service says so.
    chat = [("system", "Be brief."), ("human", "Hello"), ("ai", "Hello!"), ("human", QUESTION)]
    refused = None
    try:
        plain.invoke(chat)
    except UnprocessableEntityError as error:
        refused = error.param
    kept = keeping.invoke(QUESTION)
    chunks = list(keeping.stream(QUESTION))
    joined = chunks[0]
    for chunk in chunks[1:]:
        joined += chunk
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
        "light": light.invoke(QUESTION).response_metadata["uncertainty"],
        "drawn": drawn.invoke(QUESTION).response_metadata["uncertainty"],
    }
    print(json.dumps(told))


main(sys.argv[1])
