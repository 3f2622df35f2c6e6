"""Reads the errors of OpenAI-compatible servers, whatever their shape.

OpenAI, and most: `{"error": {"message", "type", "param", "code"}}`. Ollama: the same, or `error` as a string. vLLM's
older shape and Mistral: the error at the top, with `object`. Mistral's `message` may be an object, a list, or either of
them as text. Web frameworks: `detail`, a text or one complaint for each field. Google: all of it in a list. OpenRouter:
`metadata` has the provider's own error. Cloudflare and others: a list of `errors`. Chinese services: `code` and `msg`,
`error_code` and `error_msg`; MiniMax: `base_resp`, also in an answer of status 200.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from remote.openai.lenient_json import UNREADABLE, number, parse, text

MAX_CODE = 128
"""Longest code of an error, in characters."""
PACKED = 6
"""Levels of lists, objects and strings in which a complaint may be nested."""
NO_REASON = "it gave no reason"
SENTENCES = (
    "message", "msg", "error_message", "error_msg", "errorMessage", "errmsg", "err_msg", "status_msg", "statusMessage",
    "Message", "error_description", "faultstring", "detail", "title", "description", "reason",
)  # fmt: skip
"""Fields with a server's message, the likeliest first."""
NUMBERS = ("code", "error_code", "errorCode", "errcode", "err_code", "status_code", "statusCode")
"""Fields with a code, which successful answers of some services have too."""
CODES = (*NUMBERS, "type", "status")
GOOD = ("", "0", "200", "ok", "success", "none", "null")
"""Codes that are no error."""
PACKS = ("error", "errors", "detail", "message", "fault", "base_resp")
"""Fields in which a complaint may be nested."""


class ErrorBody(NamedTuple):
    """An error in a server's words."""

    message: str
    code: str = ""
    """Its codes, joined by a space; often empty."""
    field: str = ""
    """The field of the request that it is about, if the server names it in a separate attribute."""


def read_error(found: Any, *, bare: bool = False) -> ErrorBody | None:
    """An error from any of these servers, or None if it is not an error.

    `found`: JSON, decoded or not. `bare`: it is known to be an error, so any text in it is taken for its reason.
    """
    found = parse(found) if isinstance(found, bytes | str) else found
    if isinstance(found, list):
        found = next((part for part in found if isinstance(part, dict)), found)
    if not isinstance(found, dict):
        return ErrorBody(_any_text(found) or NO_REASON) if bare and found is not UNREADABLE else None
    inner = next((found[name] for name in ("error", "errors") if found.get(name)), None)
    if inner is None and (_tells_itself(found) or _is_bad(found)):
        inner = found
    inner = found.get("detail") or found.get("fault") if inner is None else found if inner is True else inner
    if not inner and isinstance(packed := found.get("base_resp"), dict) and _is_bad(packed):
        inner = packed
    complaint = _complaint(inner)
    if complaint is not None:
        # The enclosing object may have what the complaint lacks.
        around = inner if isinstance(inner, dict) else {}
        said = [str(code) for name in CODES if (code := _code(complaint.get(name)) or _code(around.get(name)))]
        field = _field(complaint)
        sentence = _sentence(complaint) or _sentence(around) or _any_text(complaint)
        if sentence and field and "loc" in complaint:
            sentence = f"{field}: {sentence}"
        if sentence and (passed_on := _passed_on(complaint.get("metadata"))):
            sentence = f"{sentence}: {passed_on}"
        return ErrorBody(sentence or NO_REASON, " ".join(said)[:MAX_CODE], field)
    if not inner and not bare:
        return None
    codes = [str(code) for name in CODES if (code := _code(found.get(name)))]
    words = dict.fromkeys(filter(None, (text(inner) or _any_text(inner), _sentence(found))))
    return ErrorBody(": ".join(words) or (_any_text(found) if bare else "") or NO_REASON, " ".join(codes)[:MAX_CODE])


def _tells_itself(found: dict[str, Any]) -> bool:
    """Whether an object declares itself an error."""
    return "error" in (text(found.get("object")).lower(), text(found.get("type")).lower())


def _is_bad(found: dict[str, Any]) -> bool:
    """Whether an object has a sentence, and a code that is not a good one."""
    codes = [str(found[name]).lower() for name in NUMBERS if isinstance(found.get(name), str | int)]
    bad = any(code not in GOOD for code in codes) or found.get("success") is False
    return bad and _sentence(found).lower() not in GOOD


def _sentence(found: dict[str, Any]) -> str:
    return next((said for name in SENTENCES if (said := text(found.get(name)))), "")


def _any_text(found: Any, depth: int = 0) -> str:
    """The first text in a value of any shape; empty if there is none."""
    if isinstance(found, str):
        return text(found)
    inside = found.values() if isinstance(found, dict) else found if isinstance(found, list) else ()
    return next((said for part in inside if (said := _any_text(part, depth + 1))), "") if depth < PACKED else ""


def _complaint(found: Any) -> dict[str, Any] | None:
    """The first object with a sentence, or None if there is only text or nothing."""
    last: dict[str, Any] | None = None
    for _ in range(PACKED):
        if isinstance(found, str) and found.lstrip()[:1] in ("{", "["):
            found = parse(found)
        if isinstance(found, list):
            found = next((part for part in found if isinstance(part, dict)), None)
        if not isinstance(found, dict):
            break
        last = found
        inside = next((found[name] for name in PACKS if _packs(found.get(name))), UNREADABLE)
        if inside is UNREADABLE:
            break
        found = inside
    return last


def _packs(value: Any) -> bool:
    """True if a complaint is nested in a value: an object, a list of them, or either as text."""
    if isinstance(value, str):
        return value.lstrip()[:1] in ("{", "[") and _packs(parse(value))
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(part, dict) for part in value))


def _passed_on(metadata: Any) -> str:
    """The message of the provider behind the server; often empty."""
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
