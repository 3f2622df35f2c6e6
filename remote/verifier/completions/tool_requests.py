"""Tools in requests for chat: how they are described to the model, and how its calls are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from models.text.call_reader import CallReader
from models.text.chat_text import ChatText
from models.text.tool_format import ToolFormat
from remote.openai.lenient_json import parse
from remote.openai.request_fields import (
    UNSUPPORTED,
    AskedChat,
    AskedMessage,
    FieldRefused,
    role_of,
    text_said,
    unsupported,
)
from remote.openai.schema import Tool

MOST_TOOLS = 256
TAKES_NONE = "the chat template of {target} takes no tools, or writes calls in a form that is not known here"
WITHOUT_CALLS = "Leave out the calls and their results, or begin a new conversation."
ADVICE = "Send tool_choice: none, or leave the tools out."


@dataclass(frozen=True)
class ToolRequest:
    """How one request uses tools."""

    form: ToolFormat
    tools: Sequence[Mapping[str, Any]]
    """What the model is offered, in OpenAI's form; may be empty."""
    messages: Sequence[Mapping[str, Any]]
    """The conversation for the template."""
    forced: Sequence[str]
    """Names of the functions of which one must be called; empty if none must."""
    several: bool
    """Whether an answer may have more than one call."""

    @property
    def schema(self) -> dict[str, Any] | None:
        """The JSON schema of the answer after the format's opening, or None if it is free."""
        functions = [tool["function"] for tool in self.tools if tool["function"]["name"] in self.forced]
        return self.form.schema(functions, several=self.several) if functions else None

    def reader(self) -> CallReader:
        names = [tool["function"]["name"] for tool in self.tools]
        return CallReader(self.form, names, begun=bool(self.forced), several=self.several)

    @property
    def stops(self) -> tuple[str, ...]:
        """What ends the answer after its only call."""
        return () if self.several or self.forced or not self.form.closing else (self.form.closing,)


def read_tools(request: AskedChat, text: ChatText, target: str) -> ToolRequest:
    """Read the tools of a request that `offers_tools`. Raises `FieldRefused`."""
    called = any(message.tool_calls or message.role == "tool" for message in request.messages)
    if (form := text.tool_format) is None:
        field, advice = ("messages", WITHOUT_CALLS) if called else ("tools", ADVICE)
        raise unsupported(field, TAKES_NONE.format(target=target), advice)
    offered = [] if request.tool_choice == "none" else _offered(request.tools)
    if request.continue_final_message:
        raise unsupported("continue_final_message", "an answer with tools has one beginning")
    names = [tool["function"]["name"] for tool in offered]
    return ToolRequest(
        form,
        offered,
        _messages(request.messages, form),
        _forced(request.tool_choice, names),
        request.parallel_tool_calls is not False,
    )


def _offered(given: Any) -> list[dict[str, Any]]:
    try:
        tools = msgspec.convert(given or (), tuple[Tool, ...])
    except msgspec.ValidationError as error:
        raise FieldRefused(f"The tools cannot be read: {error}. Only functions are known.", "tools") from None
    if len(tools) > MOST_TOOLS:
        raise FieldRefused(f"{len(tools)} tools are too many; this server takes {MOST_TOOLS}.", "tools")
    if len({tool.function.name for tool in tools}) < len(tools):
        raise FieldRefused("Two tools have the same name. Rename one.", "tools")
    # As it came, without fields that no template knows.
    return [msgspec.to_builtins(tool) for tool in tools]


def _forced(choice: Any, names: Sequence[str]) -> Sequence[str]:
    if choice in (None, "auto", "none"):
        return ()
    if not names:
        raise FieldRefused("tool_choice wants a call, but there are no tools.", "tool_choice")
    if choice == "required":
        return names
    function = choice.get("function") if isinstance(choice, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if isinstance(name, str) and name in names:
        return (name,)
    told = "tool_choice is none, auto, required, or {type: function, function: {name: ...}} with the name of a tool."
    raise FieldRefused(told, "tool_choice", UNSUPPORTED)


# ---- messages --------------------------------------------------------------------------------------------------------


def _messages(given: Sequence[AskedMessage], form: ToolFormat) -> list[dict[str, Any]]:
    """The messages in the form that templates know. Raises `FieldRefused`."""
    messages, called = list[dict[str, Any]](), dict[str, str]()
    for message in given:
        if message.role == "tool":
            if (name := called.get(str(message.tool_call_id))) is None:
                raise FieldRefused("A message is the result of a call that no earlier message makes.", "messages")
            known = form.known_id(str(message.tool_call_id))
            messages.append({"role": "tool", "name": name, "tool_call_id": known, "content": text_said(message)})
            continue
        said: dict[str, Any] = {"role": role_of(message), "content": text_said(message)}
        if message.tool_calls:
            if said["role"] != "assistant":
                raise FieldRefused("Only the assistant's messages may call tools.", "messages")
            said["tool_calls"] = [_call(call, form, called) for call in message.tool_calls]
        messages.append(said)
    return messages


def _call(given: Any, form: ToolFormat, called: dict[str, str]) -> dict[str, Any]:
    function = given.get("function") if isinstance(given, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if function is None or not isinstance(name, str):
        raise FieldRefused("A tool call in a message has no function name.", "messages")
    arguments = function.get("arguments")
    arguments = parse(arguments or "{}") if isinstance(arguments, str) or arguments is None else arguments
    if not isinstance(arguments, dict):
        raise FieldRefused(f"The arguments of a call to {name!r} are not a JSON object.", "messages")
    called[str(given.get("id"))] = name
    told = {"name": name, "arguments": arguments}
    return {"id": form.known_id(str(given.get("id"))), "type": "function", "function": told}
