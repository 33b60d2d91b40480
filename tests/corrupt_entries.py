"""Statistics entries that were changed by somebody who seals them well: kinds of change, by name.

Each takes the JSON of an entry of a greedy answer with samples, every kind of statistic and one
probe, and returns what stands in its place.
"""


def at(*path, value):
    """Another value at a path."""

    def change(entry):
        *parents, last = path
        inner = entry
        for name in parents:
            inner = inner[name]
        inner[last] = value(inner[last]) if callable(value) else value
        return entry

    return change


def without(*path):
    """No value at a path."""

    def change(entry):
        *parents, last = path
        inner = entry
        for name in parents:
            inner = inner[name]
        del inner[last]
        return entry

    return change


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


GENERATION, ANSWER, SAMPLE = ("generation",), ("generation", "answer"), ("generation", "samples", 0)
DERIVED = ("derived",)
PROBE = "predicted_dissimilarity"
READING = ("generation", "probe_readings", PROBE)
SENTENCES = ("generation", "sentence_readings")
OF_SENTENCE = {"value": 0.5, "distance_percentile": 3.0, "out_of_domain": False}

KINDS = {
    "a list": lambda entry: [],
    "null": lambda entry: None,
    "a string": lambda entry: "entry",
    "a number": lambda entry: 5,
    "nested lists": lambda entry: nested(200),
    "nested lists for an array": at(*DERIVED, "similarity", value=nested(200)),
    "no generation": without(*GENERATION),
    "null for the generation": at(*GENERATION, value=None),
    "a list for the generation": at(*GENERATION, value=[]),
    "an unknown field": at(*GENERATION, value=lambda one: one | {"secret": 1}),
    "an unknown form of the answer": at(*GENERATION, "answer_form", value="secret"),
    "an unknown field of the answer": at(*ANSWER, value=lambda one: one | {"secret": 1}),
    "an answer without text": without(*ANSWER, "text"),
    "a number for a text": at(*ANSWER, "text", value=5),
    "a number for a compared text": at(*SAMPLE, "compared_text", value=5),
    "a bogus finish reason": at(*ANSWER, "finish_reason", value="tired of it"),
    "a list for the finish reason": at(*SAMPLE, "finish_reason", value=["stop"]),
    "more tokens than arrays have": at(*ANSWER, "num_tokens", value=lambda count: count + 1),
    "a negative number of tokens": at(*SAMPLE, "num_tokens", value=-1),
    "true for a number of tokens": at(*ANSWER, "num_tokens", value=True),
    "a short array": at(*ANSWER, "token_logprobs", value=lambda values: values[:-1]),
    "a long array": at(*SAMPLE, "token_logprobs", value=lambda values: [*values, -0.5]),
    "a string for an array": at(*ANSWER, "token_logprobs", value="-0.5"),
    "strings in an array": at(
        *ANSWER, "token_logprobs", value=lambda values: ["-0.5"] * len(values)
    ),
    "null in an array": at(*ANSWER, "token_entropies", value=lambda values: [None, *values[1:]]),
    "flags for an array": at(*ANSWER, "token_logprobs", value=lambda one: [False] * len(one)),
    "an array of arrays": at(*ANSWER, "token_logprobs", value=lambda values: [values]),
    "null for an array": at(*ANSWER, "token_logprobs", value=None),
    "a positive log-prob": at(*SAMPLE, "token_logprobs", 0, value=0.5),
    "a log-prob of which two have no sum": at(*SAMPLE, "token_logprobs", 0, value=-1.7e308),
    "a negative entropy": at(*ANSWER, "token_entropies", 0, value=-0.5),
    "too few token texts": at(*ANSWER, "token_texts", value=lambda texts: texts[1:]),
    "a string for token texts": at(*ANSWER, "token_texts", value=lambda texts: "a" * len(texts)),
    "numbers for token texts": at(*SAMPLE, "token_texts", value=lambda texts: [1] * len(texts)),
    "strings for token ids": at(*ANSWER, "token_ids", value=lambda ids: ["1"] * len(ids)),
    "a sample too few": without(*SAMPLE),
    "a sample too many": at(*GENERATION, "samples", value=lambda samples: [*samples, samples[0]]),
    "a string for the samples": at(*GENERATION, "samples", value="samples"),
    "a string for a count": at(*GENERATION, "prompt_tokens", value="7"),
    "a fraction for the seed": at(*GENERATION, "seed", value=0.5),
    "numbers for warnings": at(*GENERATION, "warnings", value=[1]),
    "a list for the model's id": at(*GENERATION, "model_id", value=[]),
    "hidden states": at(*GENERATION, "answer_hidden_mean", value=[[1e300]]),
    "an unknown probe": at(*GENERATION, "probe_readings", value=lambda all: {"x": all[PROBE]}),
    "one probe too many": at(
        *GENERATION, "probe_readings", value=lambda all: all | {"x": all[PROBE]}
    ),
    "no probe": at(*GENERATION, "probe_readings", value={}),
    "a reading out of its range": at(*READING, "value", value=5.0),
    "a percentile out of its range": at(*READING, "distance_percentile", value=101.0),
    "a number for a flag of a reading": at(*READING, "out_of_domain", value=1),
    "a sentence out of its range": at(*SENTENCES, value=[[[1, 6], OF_SENTENCE | {"value": 5.0}]]),
    "a sentence nowhere": at(*SENTENCES, value=[[[1], OF_SENTENCE]]),
    "hidden states of a sentence": at(
        *GENERATION, "sentence_hidden_means", value=[[[1, 6], [[0.5]]]]
    ),
    "a sample as the greedy answer": at("answer_sample", value=0),
    "a similarity of 5": at(*DERIVED, "similarity", 0, value=5.0),
    "a similarity of -3": at(*DERIVED, "similarity", 0, value=-3.0),
    "true among similarities": at(*DERIVED, "similarity", 0, value=True),
    "true in a matrix": at(*DERIVED, "similarity_matrix", 0, 1, value=True),
    "too few similarities": at(*DERIVED, "similarity", value=lambda values: values[1:]),
    "no similarities": without(*DERIVED, "similarity"),
    "a string for similarities": at(*DERIVED, "similarity", value="0.5"),
    "NaN among similarities": at(*DERIVED, "similarity", 0, value=float("nan")),
    "a matrix without a row": at(*DERIVED, "similarity_matrix", value=lambda rows: rows[1:]),
    "a matrix with a short row": at(*DERIVED, "similarity_matrix", 0, value=lambda row: row[1:]),
    "an entailment of 5": at(*DERIVED, "entailment", 0, 0, value=5.0),
    "a contradiction too few": at(*DERIVED, "answer_contradiction", value=lambda one: one[1:]),
    "too few relevances": at(*DERIVED, "token_relevance", value=lambda values: values[1:]),
    "relevances of a sample too few": without(*DERIVED, "sample_token_relevance", 0),
    "a number for relevances": at(*DERIVED, "sample_token_relevance", value=0.5),
    "a probability above 1": at(*DERIVED, "p_true_logprob", value=0.5),
    "an array for a number": at(*DERIVED, "p_true_logprob", value=[-0.5]),
    "a prediction out of its range": at(*DERIVED, PROBE, value=-0.5),
    "a statistic that is none": at(*DERIVED, value=lambda all: all | {"secret": [0.5]}),
    "a statistic that is not derived": at(*DERIVED, value=lambda all: all | {"sample_texts": []}),
    "a list for statistics": at(*DERIVED, value=[]),
    "absent what cannot be": at("absent", value={"similarity": "lost"}),
    "a number for a reason": at("absent", value={"p_true_logprob": 5}),
    "a list for what is absent": at("absent", value=[]),
    "a string for a flag": at("truncated", value="yes"),
    "no flag": without("truncated"),
}
