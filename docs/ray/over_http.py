"""Answers of a service to a file of prompts, by Ray Data; begun again, it goes on.

    python over_http.py URL PROMPTS ANSWERS CHECKPOINT [--concurrency 32] [--blocks 8]
        [--background]

PROMPTS is a file of lines {"id", "prompt"}, each id once; a line may have any field of
`POST /generate-with-uncertainty`. ANSWERS and CHECKPOINT are folders: files of lines {"id",
"response"}, and of the ids that have one. The same command goes on with the same folders. A key
of the service is in the environment variable COCOA_ASK_KEY.
"""

import argparse
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ray
import requests
from lines import OF_A_LINE, Answers, Lines, answer_of, begin, place
from requests.exceptions import ChunkedEncodingError

# What each prompt is asked with, where its line does not say otherwise.
ASKED = {"seed": 7, "timeout_s": 600}
# An answer of a line, too, where it is late so often.
LATE, MAX_LATE = "deadline_exceeded", 3
# The service is asked again for so long without any answer; it answers within `timeout_s`.
BUSY, PATIENCE_S, LONGEST_WAIT_S = {429, 502, 503, 504}, 900, 15.0
# Blocks that are asked together, so that the end of one leaves no place empty.
BLOCKS_AT_ONCE = 4


class Ask:
    """Asks the service for a block of lines, up to `concurrency` of all blocks at once."""

    def __init__(self, url: str, headers: dict[str, str], concurrency: int) -> None:
        self.url = f"{url.rstrip('/')}/generate-with-uncertainty"
        self.headers = headers
        self.threads = ThreadPoolExecutor(concurrency)
        self.answered_at = time.monotonic()

    def __call__(self, block: dict[str, Any]) -> dict[str, Any]:
        """The answers to a block; a failure ends the job, which leaves the block unanswered."""
        answers = self.threads.map(self.answer, block["id"], block["line"])
        return {"id": block["id"], "answer": list(answers)}

    def answer(self, name: str, line: str) -> str:
        """The line of answers to a line of prompts, which is asked again where that may help."""
        asked = ASKED | json.loads(line)
        del asked["id"]
        wait_s, num_late = 1.0, 0
        while True:
            status, retry_after_s, content = self.post(json.dumps(asked).encode())
            try:
                response = json.loads(content)
                code = response["error"]["code"] if "error" in response else None
            except (ValueError, TypeError, KeyError):
                response, code = None, "no answer of this service"
            num_late += code == LATE
            is_answer = status == 200 and code is None
            if is_answer or code in OF_A_LINE or num_late == MAX_LATE:
                self.answered_at = time.monotonic()
                return answer_of(name, response)
            is_patient = time.monotonic() - self.answered_at < PATIENCE_S
            if status not in BUSY or not is_patient:
                raise RuntimeError(f"{self.url}: {status} {code}; the same command goes on")
            time.sleep(max(wait_s, retry_after_s))
            wait_s = min(2 * wait_s, LONGEST_WAIT_S)

    def post(self, body: bytes) -> tuple[int, float, bytes]:
        """Status, seconds of `Retry-After`, and body; 503 where no connection is to be had."""
        try:
            reply = requests.post(self.url, body, headers=self.headers, timeout=PATIENCE_S)
        except (requests.ConnectionError, requests.Timeout, ChunkedEncodingError) as error:
            return 503, 0.0, json.dumps({"error": {"code": type(error).__name__}}).encode()
        named = reply.headers.get("Retry-After", "")
        retry_after_s = float(named) if named.isdigit() else 0.0
        return reply.status_code, retry_after_s, reply.content


def main() -> None:
    """Answer what has no answer yet."""
    parser = argparse.ArgumentParser(description="Answers of a service to a file of prompts.")
    for name in ("url", "prompts", "answers", "checkpoint"):
        parser.add_argument(name)
    at_once = "requests under way at once; 32"
    parser.add_argument("--concurrency", type=int, default=32, help=at_once)
    together = "lines of a block are written together, and asked again together; 8 blocks"
    parser.add_argument("--blocks", type=int, default=8, help=together)
    others_first = "let other requests go first (docs/batches.md)"
    parser.add_argument("--background", action="store_true", help=others_first)
    given = parser.parse_args()
    headers = {"Content-Type": "application/json"}
    if key := os.environ.get("COCOA_ASK_KEY"):
        headers["Authorization"] = f"Bearer {key}"
    if given.background:
        headers["Priority"] = "u=7"
    begin(given.checkpoint, 4)
    rows = ray.data.read_datasource(Lines(place(given.prompts)), override_num_blocks=given.blocks)
    asked = rows.map_batches(
        Ask,
        fn_constructor_args=(given.url, headers, given.concurrency),
        batch_size=None,
        compute=ray.data.ActorPoolStrategy(
            size=1,
            max_concurrent_calls_per_actor=BLOCKS_AT_ONCE,
            enable_true_multi_threading=True,
        ),
    )
    asked.write_datasink(Answers(place(given.answers)))


if __name__ == "__main__":
    main()
