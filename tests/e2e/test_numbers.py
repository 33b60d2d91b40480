"""Numbers, negations and sentences word for word, by the default deployment's similarities."""

import pytest

from tests.e2e.embedded_service import embedded_service

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def client():
    async with embedded_service() as client:
        yield client


async def scored(client, **body):
    response = await client.post("/score", json=body)
    assert response.status_code == 200, response.text
    return response.json()


@pytest.mark.parametrize("similarity", ["cross_encoder", "nli", "rouge_l", "jaccard", "added"])
@pytest.mark.parametrize(
    ("answer", "sample", "expected"),
    [
        ("It is 24.", "It is 42.", 1),
        ("Take 15 mg twice a day.", "Take 51 mg twice a day.", 1),
        ("In 1945.", "In 1954.", 1),
        ("The room is 207.", "The room is 270.", 1),
        ("It is safe.", "It is not safe.", 1),
        ("12", "twelve", 0),
        ("The answer is 1,000.", "the answer is 1000", 0),
    ],
)
async def test_rules_stand_in_front_of_every_similarity(
    client, similarity, answer, sample, expected
):
    samples = [{"text": sample}] * 3
    body = await scored(
        client, answer=answer, samples=samples, similarity=similarity, estimators=["inconsistency"]
    )
    assert body["scores"]["inconsistency"] == expected


async def test_a_field_of_another_number_in_words_is_not_the_same(client):
    body = await scored(
        client,
        answer='{"a": "twelve rooms", "b": "flat 15"}',
        samples=[{"text": '{"a": "12 rooms", "b": "flat 51"}'}],
        units="fields",
    )
    assert [unit["support"] for unit in body["units"][1:]] == [1, 0]


async def test_a_sentence_that_every_sample_has_is_supported_whatever_the_model_says(client):
    start = "The capital of France is Paris. The capital of Italy is"
    body = await scored(
        client,
        answer=f"{start} Madrid.",
        samples=[
            {"text": f"{start} Rome."},
            {"text": f"the capital of France is  Paris!  {start} Rome"},
        ],
        units="sentences",
        estimators=["inconsistency"],
    )
    _, first, second = body["units"]
    assert (first["support"], first["contradiction"]) == (1, 0)
    assert second["support"] < 0.05


@pytest.mark.parametrize(
    ("answer", "same", "other"),
    [
        ("The author is Leo Tolstoy.", "Leo Tolstoy", "Fyodor Dostoevsky"),
        ("The meeting is on Tuesday.", "The meeting takes place on Tuesday.", "It is on Friday."),
        ("The bridge opened in May.", "In May the bridge was opened.", "It opened in June."),
        ("Der Turm ist aus Holz.", "Der Turm ist aus Holz gebaut.", "Er ist aus Stahl."),
    ],
)
async def test_texts_of_strangers_are_compared_by_what_they_say(client, answer, same, other):
    found = []
    for sample in (same, other):
        body = await scored(
            client, answer=answer, samples=[{"text": sample}], estimators=["inconsistency"]
        )
        assert body["warnings"] == []
        found.append(body["scores"]["inconsistency"])
    assert found[0] == 0
    assert found[1] >= 0.5


async def test_an_embedded_model_that_is_asked_about_them_all_the_same_is_warned_of(client):
    body = await scored(
        client,
        answer="The meeting is on Tuesday.",
        samples=[{"text": "The meeting takes place on Tuesday."}],
        similarity="cross_encoder",
        estimators=["inconsistency"],
        explain=True,
    )
    assert body["warnings"] == ["similarity_out_of_domain"]
    assert "is not known" in body["explanation"]
