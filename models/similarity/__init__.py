"""Pair models by name.

Values are import paths, so that a gateway without torch can read these tables.
"""

PAIR_MODELS: dict[str, str] = {
    "cross_encoder": "models.similarity.cross_encoder:CrossEncoderModel",
    "nli": "models.similarity.nli:NliModel",
    "fake": "models.similarity.fake:FakePairModel",
    "fake_nli": "models.similarity.fake:FakeNliModel",
}

# Similarity functions without weights, always there: pure functions of two texts.
LEXICAL: dict[str, str] = {
    "rouge_l": "models.similarity.lexical:rouge_l",
    "jaccard": "models.similarity.lexical:jaccard",
}
