"""Calls of `POST /score`."""

PROMPT = "What is the capital of France?"
SAMPLES = [{"text": "Paris"}, {"text": "It is Paris."}, {"text": "Lyon"}]


async def scored(service, **body):
    response = await service.client.post("/score", json={"max_new_tokens": 64, "seed": 3} | body)
    assert response.status_code == 200, response.text
    return response.json()
