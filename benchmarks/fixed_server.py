"""A server of OpenAI's chats that answers at once with bytes made before: the floor of a gateway.

python benchmarks/fixed_server.py 8499
"""

import asyncio
import json
import random
import sys
from functools import partial
from typing import Any

# Answers to one question, as draws of a small model are: some alike, some not.
ANSWERS = [
    "The capital of Bulgaria is Sofia.",
    "Sofia is the capital of Bulgaria.",
    "The capital of Bulgaria is Plovdiv.",
    "It is Sofia, a city of about 1.2 million people.",
    "The capital city of Bulgaria is called Sofia.",
    "Bulgaria's capital is Varna.",
]
_MODELS = {"object": "list", "data": [{"id": "fixed", "object": "model"}]}
_NUM_REPLIES = 64  # of each number of choices


def main(port: int) -> None:
    asyncio.run(_serve(port))


async def _serve(port: int) -> None:
    draw = random.Random(1)
    replies = {n: [_reply(draw, n) for _ in range(_NUM_REPLIES)] for n in range(1, 12)}
    server = await asyncio.get_running_loop().create_server(
        partial(_Connection, replies), "127.0.0.1", port
    )
    await server.serve_forever()


def _reply(draw: random.Random, num: int) -> bytes:
    choices = [_choice(draw, index) for index in range(num)]
    usage = {"prompt_tokens": 20, "completion_tokens": sum(map(_num_tokens, choices))}
    usage["total_tokens"] = 20 + usage["completion_tokens"]
    body = {"id": "x", "object": "chat.completion", "created": 1, "model": "fixed"}
    return _response({**body, "choices": choices, "usage": usage})


def _choice(draw: random.Random, index: int) -> dict[str, Any]:
    text = draw.choice(ANSWERS)
    entries = []
    for number, word in enumerate([*text.split(), ""]):
        token = word if number == 0 or not word else f" {word}"
        logprob = -draw.expovariate(3.0) - 1e-4
        tops = [{"token": token, "logprob": logprob, "bytes": list(token.encode())}]
        tops.append({"token": " other", "logprob": logprob - 5, "bytes": list(b" other")})
        entries.append({**tops[0], "top_logprobs": tops})
    message = {"role": "assistant", "content": text}
    choice = {"index": index, "message": message, "finish_reason": "stop"}
    return {**choice, "logprobs": {"content": entries}}


def _num_tokens(choice: dict[str, Any]) -> int:
    return len(choice["logprobs"]["content"])


def _response(body: object) -> bytes:
    content = json.dumps(body).encode()
    head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
    return head.encode() + f"Content-Length: {len(content)}\r\n\r\n".encode() + content


class _Connection(asyncio.Protocol):
    """Answers each request that has come as a whole."""

    def __init__(self, replies: dict[int, list[bytes]]) -> None:
        self._replies = replies
        self._read = b""
        self._num = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._read += data
        while (end := self._read.find(b"\r\n\r\n")) >= 0:
            head = self._read[:end].lower()
            length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
            if len(self._read) < end + 4 + length:
                return
            body, self._read = (
                self._read[end + 4 : end + 4 + length],
                self._read[end + 4 + length :],
            )
            self._transport.write(self._answer(head, body))

    def _answer(self, head: bytes, body: bytes) -> bytes:
        if head.startswith(b"get") and b"/v1/models " in head:
            return _response(_MODELS)
        if not head.startswith(b"post /v1/chat/completions "):
            return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
        self._num += 1
        asked = json.loads(body)
        replies = self._replies[asked.get("n") or 1]
        if not asked.get("temperature"):
            return replies[0]
        return replies[self._num % len(replies)]


if __name__ == "__main__":
    main(int(sys.argv[1]))
