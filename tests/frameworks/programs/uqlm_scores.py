# /// script
# dependencies = ["uqlm==0.6.7", "pyarrow<22", "langchain-openai==1.7.4", "torch==2.13.0"]
# ///
"""UQLM over ChatOpenAI: it draws its samples itself, and the service none beside them."""

import asyncio

from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI
from telling import QUESTION, URL, num_samples, spared, tell
from uqlm import BlackBoxUQ, WhiteBoxUQ


async def scored(kind, scorer, *num_responses):
    """What one scorer finds of the question."""
    options = {"logprobs": True, "max_tokens": 24, "temperature": 0, "extra_body": spared()}
    llm = ChatOpenAI(model="cocoa", base_url=URL, api_key="none", **options)
    # A message, since UQLM puts a system message before a text.
    asked = [[HumanMessage(QUESTION)]]
    uq = kind(llm=llm, scorers=[scorer], device="cpu")
    found = await uq.generate_and_score(asked, *num_responses, show_progress_bars=False)
    assert 0 < found.data[scorer][0] <= 1
    return repr(found.data)


async def all_scored():
    """By the log-probs of an answer, and by samples."""
    by_log_probs = await scored(WhiteBoxUQ, "sequence_probability")
    return [by_log_probs, await scored(BlackBoxUQ, "exact_match", 4)]


before = num_samples()
got = asyncio.run(all_scored())
assert num_samples() - before == 4
tell(globals(), [], got)
