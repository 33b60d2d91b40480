"""Engines by name. Values are import paths, so that a gateway without torch can read this table."""

ENGINES: dict[str, str] = {"transformers": "models.engines.transformers:TransformersEngine"}
