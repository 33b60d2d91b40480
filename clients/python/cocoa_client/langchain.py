"""A chat model for LangChain; needs `cocoa-client[langchain]`."""

from typing import Any

from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_openai import ChatOpenAI


class ChatCocoa(ChatOpenAI):
    """`ChatOpenAI` whose messages keep their scores, in `response_metadata["uncertainty"]`.

    It takes what `ChatOpenAI` takes: `base_url`, the service's with `/v1`, `api_key`, and in
    `extra_body={"uncertainty": {…}}` which scores are wanted. In a stream the last message that
    has content or a finish reason holds them, and so does the sum of its messages.

    The two methods are those that LangChain's own models of other providers override.
    """

    model_name: str = "cocoa"
    # The service has no `/v1/responses`, which some arguments would have LangChain ask.
    use_responses_api: bool | None = False

    def _create_chat_result(
        self, response: Any, generation_info: dict[str, Any] | None = None
    ) -> ChatResult:
        result = super()._create_chat_result(response, generation_info)
        choices = response["choices"] if isinstance(response, dict) else response.choices
        for generation, choice in zip(result.generations, choices, strict=True):
            _keep(generation.message, choice)
        return result

    def _convert_chunk_to_generation_chunk(
        self, chunk: dict[str, Any], *args: Any, **kwargs: Any
    ) -> ChatGenerationChunk | None:
        generation = super()._convert_chunk_to_generation_chunk(chunk, *args, **kwargs)
        # Streams of structured output wrap their chunks.
        choices = chunk.get("choices") or (chunk.get("chunk") or {}).get("choices")
        if generation is not None and choices:
            _keep(generation.message, choices[0])
        return generation


def _keep(message: Any, choice: Any) -> None:
    if isinstance(choice, dict):
        uncertainty = choice.get("uncertainty")
    else:
        uncertainty = getattr(choice, "uncertainty", None)
    if uncertainty is not None:
        message.response_metadata["uncertainty"] = uncertainty
