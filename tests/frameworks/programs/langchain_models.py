# /// script
# dependencies = ["langchain-openai==1.7.4"]
# ///
"""LangChain's ChatOpenAI drops the uncertainty, by both endpoints; ChatCocoa keeps it."""

from cocoa_client.langchain import ChatCocoa
from langchain_openai import ChatOpenAI
from telling import QUESTION, SCORED, URL, tell

settings = {"base_url": URL, "api_key": "none", "max_tokens": 24, "extra_body": SCORED}
chat = ChatOpenAI(model="cocoa", **settings).invoke(QUESTION)
responses = ChatOpenAI(model="cocoa", use_responses_api=True, **settings).invoke(QUESTION)
message = ChatCocoa(**settings).invoke(QUESTION)
*_, last = ChatCocoa(**settings).stream(QUESTION)
kept = ["message.response_metadata['uncertainty']"]
tell(globals(), kept, [repr(chat), repr(responses)])
