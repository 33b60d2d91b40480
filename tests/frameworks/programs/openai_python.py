# /// script
# dependencies = ["openai==3.57.0"]
# ///
"""OpenAI's own client keeps what it does not know, whole and streamed."""

from openai import OpenAI
from telling import QUESTION, SCORED, URL, tell

client = OpenAI(base_url=URL, api_key="none")
asked = {"model": "cocoa", "extra_body": SCORED}
chat = asked | {"messages": [{"role": "user", "content": QUESTION}], "max_tokens": 24}
completion = client.chat.completions.create(**chat)
chunks = list(client.chat.completions.create(**chat, stream=True))
with client.chat.completions.stream(**chat) as events:
    put_together = events.get_final_completion()
response = client.responses.create(**asked, input=QUESTION)
with client.responses.stream(**asked, input=QUESTION) as events:
    streamed = events.get_final_response()
kept = ["completion.choices[0].uncertainty", "chunks[-1].choices[0].uncertainty"]
kept += ["put_together.choices[0].message.uncertainty", "response.uncertainty"]
tell(globals(), [*kept, "streamed.uncertainty"])
