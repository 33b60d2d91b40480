# /// script
# dependencies = ["litellm==1.108.14"]
# ///
"""LiteLLM: whole chats and all responses keep the uncertainty; streams of chats drop it."""

import litellm
from telling import QUESTION, SCORED, URL, tell

asked = {"model": "openai/cocoa", "api_base": URL, "api_key": "none", "extra_body": SCORED}
chat = asked | {"messages": [{"role": "user", "content": QUESTION}], "max_tokens": 24}
response = litellm.completion(**chat)
chunks = list(litellm.completion(**chat, stream=True))
asked |= {"input": QUESTION, "max_output_tokens": 24}
answer = litellm.responses(**asked)
*_, last = litellm.responses(**asked, stream=True)
kept = ["response.choices[0].provider_specific_fields['uncertainty']"]
tell(globals(), [*kept, "answer.uncertainty", "last.response.uncertainty"], [repr(chunks)])
