"""A JSON schema as the rules of a grammar."""

from typing import Any

from .expression import Expression

ROOT_RULE = "#"


def schema_rules(schema: Any) -> dict[str, Expression]:
    """Return the rules of a schema's grammar; the rule of the whole text is ROOT_RULE, "#".

    A text of the grammar is a JSON value that the schema allows, without spaces or line breaks between its parts:
    `{"a":[1,2]}`. Each schema inside the schema has a rule with the name of its place, such as "#/properties/age" or
    "#/anyOf/0", and is called wherever it is used. So a `$ref` is a call, and a recursive schema has finitely many
    rules. A "/" in a property's name is "~1" in a place, and a "~" is "~0".

    `checked` says what is supported, and returns a schema's keywords in one form:

    - {} is any value: the rule VALUE.
    - `$ref` and `anyOf`: the one rule, or a choice of them.
    - `enum`: a choice of the values, each as `constant` writes it.
    - `type`: a choice of the types, each with its own keywords. `scalar` has those without parts.
    - array: `minItems` to `maxItems` items, each of which is a text of `items`, or else any value.
    - object with `properties`: those of `required`, and any of the others, in the order of `properties`, each once: its
      `property_key`, then its value. No other properties. The rule of n properties has at most n * n calls: with an
      option for each subset, it would have too many.
    - object without `properties`: any number of strings, ":" and values: of `additionalProperties`, or any; if it is
      false, only `{}`.

    Args:
        schema: parsed JSON. It is not changed.

    Returns:
        The rules by name, those of COMMON included. One that derives no text may be among them.

    Raises:
        ValueError: as `checked` and `find` say, for a schema that is used.

    Source: JSON Schema, draft 2020-12.
    """
    raise NotImplementedError("7.1.3 JSON schema to grammar")
