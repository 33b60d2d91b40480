"""instructor, pydantic-ai and LangChain, unmodified, ask for calls of tools: prints what they got.

The model is one of random weights, which is held to calls; so they are valid and mean nothing.
"""

import json
import sys
from typing import Literal

import instructor
from cocoa_client.langchain import ChatCocoa
from langchain_openai import ChatOpenAI
from openai import OpenAI
from pydantic import BaseModel, ConfigDict
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

QUESTION = "Where?"
MAX_TOKENS = 600


class Place(BaseModel):
    """A place."""

    model_config = ConfigDict(extra="forbid")

    city: Literal["Paris", "Lyon"]
    is_far: bool


def with_openai(url):
    function = {"name": "Place", "parameters": Place.model_json_schema()}
    asked = {
        "model": "cocoa",
        "messages": [{"role": "user", "content": QUESTION}],
        "tools": [{"type": "function", "function": function}],
        "tool_choice": "required",
        "max_tokens": MAX_TOKENS,
    }
    client = OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
    choice = client.chat.completions.create(**asked).choices[0]
    [call] = choice.message.tool_calls
    with client.chat.completions.stream(**asked) as streaming:
        [streamed] = streaming.get_final_completion().choices[0].message.tool_calls
    history = [*asked["messages"], choice.message]
    history.append({"role": "tool", "tool_call_id": call.id, "content": "far"})
    again = client.chat.completions.create(**asked | {"messages": history})
    return {
        "arguments": json.loads(call.function.arguments),
        "streamed": json.loads(streamed.function.arguments),
        "finish_reason": choice.finish_reason,
        "units": [unit.get("path") for unit in choice.uncertainty["units"]],
        "sample_tokens": choice.uncertainty["sample_tokens"],
        "again": again.choices[0].finish_reason,
    }


def with_responses(url):
    tool = {"type": "function", "name": "Place", "parameters": Place.model_json_schema()}
    asked = {"model": "cocoa", "tools": [tool], "tool_choice": "required"}
    asked |= {"input": [{"role": "user", "content": QUESTION}], "max_output_tokens": MAX_TOKENS}
    client = OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
    [call] = client.responses.create(**asked).output
    with client.responses.stream(**asked) as streaming:
        [streamed] = streaming.get_final_response().output
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "far"}
    again = client.responses.create(**asked | {"input": [*asked["input"], call, result]})
    return {
        "arguments": json.loads(call.arguments),
        "streamed": json.loads(streamed.arguments),
        "units": [unit.get("path") for unit in call.uncertainty["units"]],
        "again": [item.type for item in again.output],
    }


def with_instructor(url):
    client = instructor.from_openai(
        OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0), mode=instructor.Mode.TOOLS
    )
    place = client.chat.completions.create(
        model="cocoa",
        messages=[{"role": "user", "content": QUESTION}],
        response_model=Place,
        max_retries=0,
        max_tokens=MAX_TOKENS,
    )
    return place.model_dump()


def with_pydantic_ai(url):
    provider = OpenAIProvider(base_url=f"{url}/v1", api_key="none")
    agent = Agent(OpenAIChatModel("cocoa", provider=provider), output_type=Place)
    return agent.run_sync(QUESTION, model_settings={"max_tokens": MAX_TOKENS}).output.model_dump()


def with_langchain(url):
    model = ChatOpenAI(
        model="cocoa", base_url=f"{url}/v1", api_key="none", max_retries=0, max_tokens=MAX_TOKENS
    )
    asking = model.with_structured_output(Place, method="function_calling")
    return asking.invoke(QUESTION).model_dump()


def with_chat_cocoa(url):
    model = ChatCocoa(base_url=f"{url}/v1", api_key="none", max_retries=0, max_tokens=MAX_TOKENS)
    asking = model.with_structured_output(Place, method="function_calling", include_raw=True)
    got = asking.invoke(QUESTION)
    uncertainty = got["raw"].response_metadata["uncertainty"]
    return got["parsed"].model_dump() | {"units": uncertainty["units"]}


def main(url):
    told = {
        "openai": with_openai(url),
        "responses": with_responses(url),
        "instructor": with_instructor(url),
        "pydantic_ai": with_pydantic_ai(url),
        "langchain": with_langchain(url),
        "chat_cocoa": with_chat_cocoa(url),
    }
    print(json.dumps(told))


main(sys.argv[1])
