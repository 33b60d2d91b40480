# /// script
# dependencies = ["openai-agents==0.24.0"]
# ///
"""openai-agents: its model of responses keeps the uncertainty in the raw responses."""

import asyncio

from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from telling import QUESTION, SCORED, URL, tell

set_tracing_disabled(True)


async def results():
    """Those of both models, and of a stream of the second."""
    client = AsyncOpenAI(base_url=URL, api_key="none")
    settings = ModelSettings(max_tokens=24, extra_body=SCORED)
    agents = []
    for kind in (OpenAIChatCompletionsModel, OpenAIResponsesModel):
        agents.append(Agent("asks", model=kind("cocoa", client), model_settings=settings))
    whole = [await Runner.run(agent, QUESTION) for agent in agents]
    streamed = Runner.run_streamed(agents[1], QUESTION)
    async for _ in streamed.stream_events():
        pass
    return *whole, streamed


chat, result, streamed = asyncio.run(results())
assert {chat.final_output, result.final_output, streamed.final_output} == {"Paris"}
kept = ["result.raw_responses[0].output[0].uncertainty"]
kept += ["streamed.raw_responses[0].output[0].uncertainty"]
tell(globals(), kept, [repr(chat.raw_responses)])
