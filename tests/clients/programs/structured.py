"""instructor, pydantic-ai and LangChain, unmodified, ask for objects: prints what they got as JSON.

Each asks in the ways that hold an answer to a schema.
"""

import json
import sys
from typing import Literal

import instructor
from langchain_openai import ChatOpenAI
from openai import OpenAI
from pydantic import BaseModel, ConfigDict, Field
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

QUESTION = "What is the capital of France?"


class City(BaseModel):
    """A city, and nothing else: the embedded model would go on."""

    model_config = ConfigDict(extra="forbid")

    name: Literal["Paris", "Lyon", "Rome"]
    districts: int = Field(ge=1, le=99)
    rivers: list[Literal["Seine", "Rhone"]] = Field(max_length=2)


def with_instructor(url):
    client = instructor.from_openai(
        OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0),
        mode=instructor.Mode.JSON_SCHEMA,
    )
    city, completion = client.chat.completions.create_with_completion(
        model="cocoa",
        messages=[{"role": "user", "content": QUESTION}],
        response_model=City,
        max_retries=0,
        max_tokens=128,
    )
    return city, completion.choices[0].uncertainty


def with_pydantic_ai(url):
    provider = OpenAIProvider(base_url=f"{url}/v1", api_key="none")
    agent = Agent(OpenAIChatModel("cocoa", provider=provider), output_type=NativeOutput(City))
    return agent.run_sync(QUESTION, model_settings={"max_tokens": 128}).output


def with_langchain(url):
    model = ChatOpenAI(
        model="cocoa", base_url=f"{url}/v1", api_key="none", max_retries=0, max_tokens=128
    )
    return model.with_structured_output(City).invoke(QUESTION)


def main(url):
    city, uncertainty = with_instructor(url)
    told = {
        "instructor": city.model_dump(),
        "units": uncertainty["units"],
        "pydantic_ai": with_pydantic_ai(url).model_dump(),
        "langchain": with_langchain(url).model_dump(),
    }
    print(json.dumps(told))


main(sys.argv[1])
