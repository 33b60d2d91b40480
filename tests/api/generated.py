"""Calls of `POST /generate-with-uncertainty`."""

SEEDED = {"seed": 2, "num_samples": 10}


async def generated(service, **body):
    response = await service.generate(**body)
    assert response.status_code == 200, response.text
    return response.json()
