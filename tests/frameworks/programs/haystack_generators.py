# /// script
# dependencies = ["haystack-ai==3.4.1"]
# ///
"""haystack's generators: that of responses keeps the uncertainty, whole and streamed."""

from haystack.components.generators.chat import OpenAIChatGenerator, OpenAIResponsesChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.utils import Secret
from telling import QUESTION, SCORED, URL, tell


def reply_of(kind, limit, callback=None):
    """The message of a generator."""
    options = {limit: 24, "extra_body": SCORED}
    settings = {"model": "cocoa", "api_base_url": URL, "api_key": Secret.from_token("none")}
    generator = kind(**settings, generation_kwargs=options, streaming_callback=callback)
    return generator.run([ChatMessage.from_user(QUESTION)])["replies"][0]


chat = reply_of(OpenAIChatGenerator, "max_tokens")
reply = reply_of(OpenAIResponsesChatGenerator, "max_output_tokens")
streamed = reply_of(OpenAIResponsesChatGenerator, "max_output_tokens", lambda chunk: None)
assert {chat.text, reply.text, streamed.text} == {"Paris"}
tell(globals(), ["reply.meta['uncertainty']", "streamed.meta['uncertainty']"], [repr(chat)])
