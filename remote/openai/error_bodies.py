"""Reads the errors of OpenAI-compatible servers, whatever their shape.

OpenAI, and most: `{"error": {"message", "type", "param", "code"}}`. Ollama: the same, or `error` as a text. vLLM's
older shape and Mistral: the error at the top, with `object`. Mistral's `message` may be an object, a list, or either of
them as text. Web frameworks: `detail`, a text or one complaint for each field. Google: all of it in a list.
OpenRouter: what the provider said stands in `metadata`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from remote.openai.lenient_json import UNREADABLE, number, parse, text

MAX_CODE = 128
"""Longest code of an error, in characters."""
PACKED = 6
"""Levels of lists, objects and texts in which a complaint may be packed."""
NO_REASON = "it gave no reason"
CODES = ("code", "type", "status")


class ErrorBody(NamedTuple):
    """An error in a server's words."""

    message: str
    code: str = ""
    """Its codes, joined by a space; often empty."""
    field: str = ""
    """The field of the request that it is about, if the server names it apart from its words."""


def read_error(found: Any, *, bare: bool = False) -> ErrorBody | None:
    """An error from any of these servers. None for what is not an error.

    `found`: JSON, decoded or not. `bare`: a `message` alone also counts, as gateways write it.
    """
    found = parse(found) if isinstance(found, bytes | str) else found
    if isinstance(found, list):
        found = next((part for part in found if isinstance(part, dict)), None)
    if not isinstance(found, dict):
        return None
    inner = found.get("error") or (found if text(found.get("object")).lower() == "error" else found.get("detail"))
    complaint = _complaint(inner)
    if complaint is not None:
        # What a complaint does not say itself may stand around it.
        around = inner if isinstance(inner, dict) else {}
        said = [str(code) for name in CODES if (code := _code(complaint.get(name)) or _code(around.get(name)))]
        field = _field(complaint)
        sentence = text(complaint.get("message")) or text(complaint.get("msg")) or text(around.get("message"))
        if sentence and field and "loc" in complaint:
            sentence = f"{field}: {sentence}"
        if sentence and (passed_on := _passed_on(complaint.get("metadata"))):
            sentence = f"{sentence}: {passed_on}"
        return ErrorBody(sentence or NO_REASON, " ".join(said)[:MAX_CODE], field)
    sentence = text(inner) or (text(found.get("message")) if bare else "")
    return ErrorBody(sentence) if sentence else ErrorBody(NO_REASON) if inner else None


def _complaint(found: Any) -> dict[str, Any] | None:
    """The first object with a sentence; None if there is only text, or nothing."""
    last: dict[str, Any] | None = None
    for _ in range(PACKED):
        if isinstance(found, str) and found.lstrip()[:1] in ("{", "["):
            found = parse(found)
        if isinstance(found, list):
            found = next((part for part in found if isinstance(part, dict)), None)
        if not isinstance(found, dict):
            break
        last = found
        inside = next((found[name] for name in ("error", "detail", "message") if _packs(found.get(name))), UNREADABLE)
        if inside is UNREADABLE:
            break
        found = inside
    return last


def _packs(value: Any) -> bool:
    """True if a complaint is packed in a value: an object, a list of them, or either as text."""
    if isinstance(value, str):
        return value.lstrip()[:1] in ("{", "[") and _packs(parse(value))
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(part, dict) for part in value))


def _passed_on(metadata: Any) -> str:
    """The words of a provider behind the server; often empty."""
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    inner = read_error(raw) if isinstance(raw, str) and _packs(raw) else None
    return text(raw) if inner is None else inner.message


def _code(value: Any) -> str | int:
    return text(value) or number(value)


def _field(complaint: dict[str, Any]) -> str:
    """The name of a field: `param`, or `loc`, a path that begins with `body`."""
    path = complaint.get("loc")
    if isinstance(path, list):
        parts = [part for part in path if part != "body" and isinstance(part, str | int)]
        return ".".join(text(part) if isinstance(part, str) else str(part) for part in parts)[:MAX_CODE]
    return text(complaint.get("param"))[:MAX_CODE]
