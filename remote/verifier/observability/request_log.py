"""The log of the server: one line for each request, as text or as JSON, and warnings in the same format.

No line holds a question, an answer, a token, or the path as it was typed. A traceback is written without the error's
message, because that may quote what a client sent.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

from remote.verifier.observability.record import Record
from remote.verifier.options import LogFormat

QUIET = frozenset({"/healthz", "/readyz", "/metrics"})
"""Routes that are polled. They are logged only if they fail."""
REQUESTS = "outrider.requests"

log = logging.getLogger(REQUESTS)


def log_request(record: Record, method: str, status: int, seconds: float, whole: bool) -> None:
    """Log a request that has ended. `whole`: its answer was sent to its end."""
    if record.route in QUIET and status < 400:
        return
    fields = {
        "request_id": record.id,
        "method": method,
        "route": record.route,
        "status": status,
        "milliseconds": round(1000 * seconds, 1),
        "prompt_tokens": record.prompt_tokens,
        "new_tokens": record.new_tokens,
        "holder": record.holder,
        "whole": whole,
    }
    log.info("request", extra={"fields": fields})


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {"time": _when(record), "level": record.levelname.lower()}
        fields = getattr(record, "fields", None)
        line |= {"message": record.getMessage()} if fields is None else fields
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = _where(record.exc_info[1])
        return json.dumps(line, ensure_ascii=True)


class TextLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = getattr(record, "fields", None)
        if fields is None:
            text = f"{record.levelname.lower()}: {record.getMessage().strip()}"
        else:
            tokens = f"{fields['prompt_tokens']}+{fields['new_tokens']} tokens"
            broken = "" if fields["whole"] else ", broken off"
            text = f"{fields['method']} {fields['route']} {fields['status']} {fields['milliseconds']} ms, {tokens}"
            text = f"{text}, {fields['holder'] or 'nobody'}{broken} ({fields['request_id']})"
        if record.exc_info and record.exc_info[1] is not None:
            text = "\n  ".join((text, *_where(record.exc_info[1])))
        return f"{_when(record)} {text}"


def write_log(form: LogFormat, stream: TextIO | None = None) -> None:
    """Have this process write its log in a format; `off`: only warnings, as text. `stream`: by default stderr."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    logging.getLogger().addHandler(handler)
    log.setLevel(logging.WARNING if form == "off" else logging.INFO)


def _when(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _where(error: BaseException) -> list[str]:
    """The type of an error and its traceback, most recent call last, without its message."""
    places = [type(error).__name__]
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append(f"{code.co_filename}:{trace.tb_lineno} {code.co_name}")
        trace = trace.tb_next
    return places
