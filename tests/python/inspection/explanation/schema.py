"""The published schema of the JSON form."""

from __future__ import annotations

import functools
import json
from importlib import resources
from typing import Any

import jsonschema


@functools.cache
def _validator() -> jsonschema.Draft202012Validator:
    text = resources.files("shardprop").joinpath("schemas/explanation.schema.json").read_text()
    document = json.loads(text)
    jsonschema.Draft202012Validator.check_schema(document)
    return jsonschema.Draft202012Validator(document)


def validate(document: dict[str, Any]) -> None:
    """Raise where a document does not keep to the schema."""
    _validator().validate(document)
