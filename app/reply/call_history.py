"""A conversation with its tool calls, in the form in which servers with OpenAI's API read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from app.attachments.content import question_content
from app.drafting.prompt import answered, system_apart
from app.tools.tool import Tool
from storage import Call, Message

UNKNOWN = (
    "It is unknown whether this call was carried out: the connection to the tool, or the program, ended while it ran. "
    "It was not repeated."
)
NOT_MADE = "This call was not made: the answer was stopped before."


def spoken(thread: Sequence[Message], system: str | None) -> list[dict[str, Any]]:
    """The messages up to the last question, each answer with its calls. `system`: as for `system_apart`."""
    said, messages = system_apart(answered(thread, calls=True), system)
    history: list[dict[str, Any]] = [{"role": "system", "content": said}] if said else []
    for message in messages:
        if message.role == "assistant":
            history += answer_with_calls(message.text, message.calls)
        else:
            history.append({"role": message.role, "content": question_content(message)})
    return history


def answer_with_calls(text: str, calls: Sequence[Call]) -> list[dict[str, Any]]:
    """An answer as the assistant's messages, each with the calls that it ends with, and their results."""
    messages: list[dict[str, Any]] = []
    begun = 0
    for (_, at), each in groupby(calls, lambda call: (call.turn, call.at)):
        together = list(each)
        called = [
            {
                "id": call.call_id,
                "type": "function",
                "function": {"name": name_in_api(call), "arguments": call.arguments},
            }
            for call in together
        ]
        messages.append({"role": "assistant", "content": text[begun:at].strip() or None, "tool_calls": called})
        messages += [{"role": "tool", "tool_call_id": call.call_id, "content": result_of(call)} for call in together]
        begun = at
    rest = text[begun:].strip("\n")
    return [*messages, {"role": "assistant", "content": rest}] if rest else messages


def call_text(message: Message) -> Message:
    """An answer with its tool calls and their results as text, for a reader who knows no tools."""
    if not message.calls:
        return message
    said = "".join(
        f"[Called {name_in_api(one)} with {one.arguments}. Result: {result_of(one)}]\n\n" for one in message.calls
    )
    return replace(message, text=f"{said}{message.text}", tokens=(), provenance=(), calls=())


def result_of(call: Call) -> str:
    """The result of a call, as the model reads it."""
    return call.result or {"unknown": UNKNOWN, "running": UNKNOWN, "asked": NOT_MADE}.get(call.state, "(no output)")


def name_in_api(call: Call) -> str:
    """The name by which the model called the tool."""
    return Tool(call.server, call.tool, "", {}).full_name if call.server else call.tool
