"""LiteLLM, unmodified: prints what it got from the service as JSON."""

import json
import sys

import litellm

MESSAGES = [{"role": "user", "content": "What is the capital of France?"}]


def fallen_back(asked):
    """What a router does with a prompt that is too long: it asks the model named for that."""
    settings = {name: asked[name] for name in ("api_base", "api_key", "max_tokens")}
    short = {"model_name": "short", "litellm_params": {"model": "openai/cocoa", **settings}}
    long = {**short, "model_name": "long"}
    long["litellm_params"] = {**short["litellm_params"], "mock_response": "from the other"}
    router = litellm.Router([short, long], context_window_fallbacks=[{"short": ["long"]}])
    messages = [{"role": "user", "content": "word " * 2000}]
    return router.completion("short", messages).choices[0].message.content


def echoed(asked, message):
    """An answer sent back as LiteLLM keeps it."""
    chat = [*MESSAGES, message.model_dump(), {"role": "user", "content": "Sure?"}]
    try:
        litellm.completion(**asked | {"messages": chat})
    except litellm.BadRequestError as error:
        return error.message
    return ""


def main(url):
    litellm.suppress_debug_info = True  # it prints where help is to be had
    asked = {"model": "openai/cocoa", "api_base": f"{url}/v1", "api_key": "none", "seed": 1}
    asked |= {"messages": MESSAGES, "max_retries": 0, "max_tokens": 24}
    scored = asked | {"extra_body": {"uncertainty": {"num_samples": 4}}}
    whole = litellm.completion(**scored)
    chunks = list(litellm.completion(**scored, stream=True))
    light = litellm.completion(**asked | {"model": "openai/cocoa:light"})
    text = {name: asked[name] for name in ("api_base", "api_key", "max_tokens")}
    continued = litellm.text_completion(
        model="text-completion-openai/cocoa", prompt=MESSAGES[0]["content"], **text
    )
    try:
        litellm.completion(**asked | {"model": "openai/gpt-9"})
    except litellm.NotFoundError as error:
        unknown = type(error).__name__
    told = {
        "text": whole.choices[0].message.content,
        "uncertainty": whole.choices[0].provider_specific_fields["uncertainty"],
        "usage": whole.usage.model_dump(),
        "streamed": "".join(chunk.choices[0].delta.content or "" for chunk in chunks),
        "light": light.choices[0].provider_specific_fields["uncertainty"],
        "continued": continued.choices[0].text,
        "unknown": unknown,
        "fallen_back": fallen_back(asked),
        "echoed": echoed(asked, whole.choices[0].message),
    }
    print(json.dumps(told))


main(sys.argv[1])
