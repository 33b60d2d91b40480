"""LlamaIndex's OpenAILike, unmodified: prints what it got from the service as JSON."""

import json
import sys

from llama_index.core.llms import ChatMessage
from llama_index.llms.openai_like import OpenAILike

QUESTION = "What is the capital of France?"


def main(url):
    settings = {"api_base": f"{url}/v1", "api_key": "none", "max_retries": 0}
    wanted = {"extra_body": {"uncertainty": {"num_samples": 4}}, "seed": 1}
    chatting = OpenAILike(
        model="cocoa", is_chat_model=True, temperature=0, additional_kwargs=wanted, **settings
    )
    drawn = OpenAILike(model="cocoa", is_chat_model=True, additional_kwargs=wanted, **settings)
    light = OpenAILike(model="cocoa:light", is_chat_model=True, temperature=0, **settings)
    text = OpenAILike(model="cocoa", temperature=0, additional_kwargs=wanted, **settings)
    answer = chatting.chat([ChatMessage(role="user", content=QUESTION)])
    chunks = list(chatting.stream_chat([ChatMessage(role="user", content=QUESTION)]))
    told = {
        "text": answer.message.content,
        "uncertainty": answer.raw.choices[0].uncertainty,
        "streamed": "".join(chunk.delta or "" for chunk in chunks),
        "streamed_uncertainty": chunks[-1].raw.choices[0].uncertainty,
        "drawn": drawn.complete(QUESTION).raw.choices[0].uncertainty,
        "light": light.complete(QUESTION).raw.choices[0].uncertainty,
        "continued": text.complete(QUESTION).text,
        "continued_in_chunks": [one.text for one in text.stream_complete(QUESTION)][-1],
    }
    print(json.dumps(told))


main(sys.argv[1])
