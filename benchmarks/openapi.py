"""The schema of the OpenAI routes of `outrider serve`, for tools such as schemathesis.

It is based on the structs that the server reads and writes, which say what each field may be. Rules about several
fields together, or about the model's own limits, are added by hand; the bundled model, for example, takes no tools. If
JSON Schema cannot express a rule, the schema allows less than the server does: an answer to be continued comes after
exactly one question.
"""

from __future__ import annotations

from typing import Any

import msgspec

from remote.openai.request_fields import ROLES
from remote.openai.schema import ChatRequest, Completion, Model, Models, TextCompletion, TextRequest
from remote.verifier.completions.completion_requests import MOST_CHOICES

Schema = dict[str, Any]
CHAT, TEXT, MODELS = "/v1/chat/completions", "/v1/completions", "/v1/models"
SECURITY = "token"
JSON_TYPES = ["string", "number", "integer", "boolean", "null", "object", "array"]
REFUSALS = {
    "400": "a field is wrong", "401": "no token, or a wrong one", "404": "another model", "413": "too large",
    "429": "too many", "503": "no room, or about to end",
}  # fmt: skip


def document(vocabulary: int, *, gateway: bool = False) -> Schema:
    """The routes as an OpenAPI document, for a model with this many tokens.

    `gateway`: the routes of `outrider gateway`, which refuses some fields that the server takes; the schema does not
    show this.
    """
    kinds = [ChatRequest, TextRequest, Completion, TextCompletion, Models, Model]
    (chat, text, completion, plain, models, model), parts = msgspec.json.schema_components(
        kinds, ref_template="#/components/schemas/{name}"
    )
    if not gateway:
        _narrow_fields(parts, vocabulary)
        parts["ChatRequest"]["allOf"] = [_logprobs_together(), _continued_alone()]
        parts["TextRequest"]["allOf"] = [_echo_alone(), _choices_in_all()]
    part: Schema = {"anyOf": [{"$ref": "#/components/schemas/ContentPart"}, {"type": "string"}, {"type": "null"}]}
    parts["ChatMessage"]["properties"]["content"] = {"anyOf": [part, {"type": "array", "items": part}]}
    parts["Error"] = _error()
    named = {"name": "name", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
    listed = _route(models, ("401", "503"))
    listed["responses"]["200"]["links"] = {
        "model": {"operationId": "model", "parameters": {"path.name": "$response.body#/data/0/id"}}
    }
    paths = {
        CHAT: {"post": {"operationId": "chat", **_route(completion, tuple(REFUSALS), chat)}},
        TEXT: {"post": {"operationId": "text", **_route(plain, tuple(REFUSALS), text)}},
        MODELS: {"get": {"operationId": "models", **listed}},
        f"{MODELS}/{{name}}": {
            "get": {"operationId": "model", "parameters": [named], **_route(model, ("401", "404", "503"))}
        },
    }
    if gateway:
        for route in (route for methods in paths.values() for route in methods.values()):
            for response in route["responses"].values():
                del response["headers"]
    return {
        "openapi": "3.1.0",
        "info": {"title": "Outrider", "version": "1"},
        "paths": paths,
        "components": {"schemas": parts, "securitySchemes": {SECURITY: {"type": "http", "scheme": "bearer"}}},
        "security": [{SECURITY: []}],
    }


# ---- requests --------------------------------------------------------------------------------------------------------


def _narrow_fields(parts: dict[str, Schema], vocabulary: int) -> None:
    """Add constraints on single fields that the structs leave open."""
    parts["ChatMessage"]["properties"]["role"]["enum"] = list(ROLES)
    del parts["ChatMessage"]["properties"]["tool_calls"]
    parts["ChatMessage"]["required"] = ["role"]
    del parts["ContentPart"]["required"]
    parts["ChatRequest"]["properties"]["tools"] = _or_null({"type": "array", "maxItems": 0})
    parts["ChatRequest"]["properties"]["tool_choice"] = {"enum": [None, "auto", "none"]}
    parts["ContentPart"]["properties"]["type"] = {"const": "text"}
    kinds: Schema = {"anyOf": [{"enum": JSON_TYPES}, {"type": "array", "items": {"enum": JSON_TYPES}, "minItems": 1}]}
    schema = {"type": "object", "properties": {"type": kinds}}
    wanted: Schema = {"type": "object", "properties": {"schema": schema}}
    either: Schema = {"schema": _or_null(schema), "json_schema": _or_null(wanted)}
    strict: Schema = {"type": {"const": "json_schema"}, "json_schema": {**wanted, "required": ["schema"]}}
    formats = [
        {"properties": {"type": {"const": "text"}, "json_schema": _or_null({"type": "object"})}},
        {"properties": {"type": {"const": "json_object"}, **either}},
        {"properties": strict, "required": ["json_schema"]},
    ]
    parts["ResponseFormat"] = {"type": "object", "required": ["type"], "anyOf": formats}
    token = {"type": "integer", "minimum": 0, "exclusiveMaximum": vocabulary}
    tokens = {"type": "array", "items": token, "minItems": 1}
    words = {"type": "string", "minLength": 1}
    several = {"type": "array", "items": {"anyOf": [words, tokens]}, "minItems": 1, "maxItems": MOST_CHOICES}
    parts["TextRequest"]["properties"]["prompt"] = {"anyOf": [words, tokens, several]}
    for request in ("ChatRequest", "TextRequest"):
        bias, name = {"type": "number", "minimum": -100, "maximum": 100}, {"pattern": f"^({below(vocabulary)})$"}
        biases = {"type": "object", "propertyNames": name, "additionalProperties": bias}
        parts[request]["properties"]["logit_bias"] = _or_null(biases)


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [{"type": "null"}, schema]}


def below(bound: int) -> str:
    """A regular expression for the whole numbers below a bound, without zeros in front."""
    digits = str(bound - 1)
    found = ["0"] if len(digits) > 1 else [f"[0-{digits}]"]
    found += [f"[1-9][0-9]{{{length - 1}}}" for length in range(1, len(digits))]
    if len(digits) > 1:
        for at, digit in enumerate(digits):
            least = 1 if at == 0 else 0
            if int(digit) > least:
                found.append(f"{digits[:at]}[{least}-{int(digit) - 1}][0-9]{{{len(digits) - at - 1}}}")
        found.append(digits)
    return "|".join(found)


def _off(*names: str, also: tuple[object, ...] = ()) -> Schema:
    """Fields that are left out, null, or at a value that changes nothing."""
    return {"properties": {name: {"enum": [None, *also]} for name in names}}


def _logprobs_together() -> Schema:
    on = {"properties": {"logprobs": {"const": True}}, "required": ["logprobs"]}
    return {"anyOf": [_off("top_logprobs", also=(0,)), on]}


def _continued_alone() -> Schema:
    both = {"prefixItems": [{}, {"properties": {"role": {"const": "assistant"}}}], "minItems": 2, "maxItems": 2}
    alone = {"add_generation_prompt": {"enum": [None, False]}, "response_format": {"type": "null"}}
    properties = {"continue_final_message": {"const": True}, "messages": both, **alone}
    on = {"properties": properties, "required": ["continue_final_message"]}
    off = [_off("continue_final_message", also=(False,)), _off("add_generation_prompt", also=(True,))]
    return {"anyOf": [{"allOf": off}, on]}


def _echo_alone() -> Schema:
    return {"anyOf": [_off("logprobs"), _off("echo", also=(False,))]}


def _choices_in_all() -> Schema:
    """At most this many prompts times answers."""
    few = {"properties": {"prompt": {"anyOf": [{"type": "string"}, _ids(), {"maxItems": MOST_CHOICES // 16}]}}}
    return {"anyOf": [_off("n", also=(1,)), few]}


def _ids() -> Schema:
    return {"type": "array", "items": {"type": "integer"}}


# ---- answers ---------------------------------------------------------------------------------------------------------


def _error() -> Schema:
    text_or_null = {"type": ["string", "null"]}
    inner = {
        "type": "object",
        "properties": {
            "message": {"type": "string"}, "type": {"type": "string"}, "param": text_or_null, "code": text_or_null,
        },
        "required": ["message", "type", "param", "code"],
    }  # fmt: skip
    return {"type": "object", "properties": {"error": inner}, "required": ["error"]}


def _event() -> Schema:
    """An event of a stream: JSON, or the word that ends it."""
    data = {"type": "string", "pattern": r"^(\{[\s\S]*\}|\[DONE\])$"}
    return {"type": "object", "properties": {"data": data}, "required": ["data"]}


def _route(answered: Schema, refusals: tuple[str, ...], asked: Schema | None = None) -> Schema:
    """A route. `asked`: the body of its request, if it has one; then its answer may be streamed."""
    json_of = lambda schema: {"application/json": {"schema": schema}}  # noqa: E731
    id_of = {"x-request-id": {"required": True, "schema": {"type": "string", "minLength": 1}}}
    again = {"retry-after": {"required": True, "schema": {"type": "string", "pattern": "^[1-9][0-9]*$"}}}
    streamed: Schema = {} if asked is None else {"text/event-stream": {"schema": _event()}}
    responses: Schema = {
        "200": {"description": "answered", "headers": id_of, "content": {**json_of(answered), **streamed}}
    }
    for status in refusals:
        headers = {**id_of, **(again if status in ("429", "503") else {})}
        content = json_of({"$ref": "#/components/schemas/Error"})
        responses[status] = {"description": REFUSALS[status], "headers": headers, "content": content}
    body: Schema = {} if asked is None else {"requestBody": {"required": True, "content": json_of(asked)}}
    return {**body, "responses": responses}
