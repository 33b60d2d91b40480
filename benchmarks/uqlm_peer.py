"""UQLM's `consistency_and_confidence` over the service's `/v1`; called by `peers.py`.

It runs in a virtual environment of UQLM's own, which is why it imports nothing of ours, and speaks
as `polygraph.py` does. Its sentences are embedded by the body of the embedded cross-encoder, which
was not made for it: the time is that of such a model, and the scores mean nothing.
"""

import asyncio
import json
import sys
import time

from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI
from uqlm import WhiteBoxUQ


async def main(encoder: str, max_new_tokens: int, num_samples: int, url: str) -> None:
    """Answer requests until there are no more."""
    llm = ChatOpenAI(
        base_url=f"{url}/v1",
        api_key="none",
        model="cocoa",
        temperature=0,
        max_completion_tokens=max_new_tokens,
        logprobs=True,
        extra_body={"uncertainty": {"cache": False, "estimators": ["sp"]}},
    )
    scorers = ["sequence_probability", "consistency_and_confidence"]
    uq = WhiteBoxUQ(llm=llm, scorers=scorers, sentence_transformer=encoder, device="cpu")
    print(json.dumps({}), flush=True)
    for line in sys.stdin:
        # Messages, since UQLM puts a system message before a text, which these models do not take.
        prompts = [[HumanMessage(prompt)] for prompt in json.loads(line)["prompts"]]
        began_at = time.perf_counter()
        found = await uq.generate_and_score(
            prompts, num_responses=num_samples, show_progress_bars=False
        )
        elapsed_ms = 1000 * (time.perf_counter() - began_at)
        scores = found.data["consistency_and_confidence"]
        print(json.dumps({"ms": elapsed_ms, "scores": list(map(float, scores))}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]))
