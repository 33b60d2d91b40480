"""The base of all shapes: fields with descriptions, some of which may be absent."""

from typing import Any

from pydantic import MISSING, BaseModel, ConfigDict, GetJsonSchemaHandler
from pydantic_core import CoreSchema

# The default of a field that a response may leave out: pydantic writes nothing for it. The field's
# type is that of its values, and has null only for a requested value that cannot be had.
ABSENT: Any = MISSING


class Described(BaseModel):
    """A shape whose fields are described by the strings below them, in the document too."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        schema = handler(core_schema)
        for field in handler.resolve_ref_schema(schema).get("properties", {}).values():
            if "description" in field:
                field["description"] = " ".join(field["description"].split())
        return schema
