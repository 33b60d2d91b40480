"""Calls of `POST /score`."""

PROMPT = "What is the capital of France?"
SAMPLES = [{"text": "Paris"}, {"text": "It is Paris."}, {"text": "Lyon"}]


async def scored(service, **body):
    if "samples" not in body and body.keys() & {"prompt", "messages"}:  # else none are drawn
        body = {"max_new_tokens": 64, "seed": 3, **body}
    response = await service.client.post("/score", json=body)
    assert response.status_code == 200, response.text
    return response.json()
