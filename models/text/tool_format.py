"""How a chat template writes tool calls.

What a template does is read off a probe: it renders a tool and a call, and the text around them shows the form. Three
forms are known: each call as JSON between tags (Hermes, Qwen), a list of calls after a marker (Mistral), and bare JSON
(Llama 3). A template with another form takes no tools here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Literal

Message = Mapping[str, Any]
Form = Literal["tagged", "listed", "bare"]
TAGS = "<tool_call>", "</tool_call>"
MARKER = "[TOOL_CALLS]"
"""What Mistral's models write before a list of calls."""
NAME, ARGUMENT, VALUE = "probe_tool", "probe_argument", "probe_value"
"""What a probe contains."""
CALL_IN_PROBE = re.compile(rf'\{{"name": ?"{NAME}", ?"(arguments|parameters)": ?\{{"{ARGUMENT}": ?"{VALUE}"\}}')
SHORT_ID = 9
"""Characters of a call's id, letters and digits: Mistral's templates take no other."""
MAX_CALLS = 128


@dataclass(frozen=True)
class ToolFormat:
    """The form in which one template writes calls."""

    form: Form
    opening: str
    """What comes before the JSON of the first call."""
    field: str
    """The field of a call with its arguments: `arguments` or `parameters`."""

    @property
    def closing(self) -> str:
        """What comes after a call, or empty if only the end of the answer does."""
        return TAGS[1] if self.form == "tagged" else ""

    def schema(self, tools: Sequence[Mapping[str, Any]], *, several: bool) -> dict[str, Any]:
        """The JSON schema of what follows `opening` if one of these functions must be called.

        `several`: more than one call is allowed, where the form has a list.
        """
        shared: dict[str, Any] = {}
        calls = [self._call(tool, f"tool{at}_", shared) for at, tool in enumerate(tools)]
        schema: dict[str, Any] = calls[0] if len(calls) == 1 else {"anyOf": calls}
        if self.form == "listed":
            schema = {"type": "array", "items": schema, "minItems": 1, "maxItems": MAX_CALLS if several else 1}
        return {**schema, "$defs": shared} if shared else schema

    def _call(self, tool: Mapping[str, Any], prefix: str, shared: dict[str, Any]) -> dict[str, Any]:
        parameters = {"type": "object", **(tool.get("parameters") or {})}
        for definitions in ("$defs", "definitions"):
            if isinstance(found := parameters.pop(definitions, None), dict):
                shared |= {prefix + name: _moved(schema, prefix) for name, schema in found.items()}
        return {
            "type": "object",
            "properties": {"name": {"const": tool["name"]}, self.field: _moved(parameters, prefix)},
            "required": ["name", self.field],
            "additionalProperties": False,
        }

    def known_id(self, name: str) -> str:
        """The id of an earlier call in a form that the template takes."""
        if self.form != "listed" or re.fullmatch(rf"[a-zA-Z0-9]{{{SHORT_ID}}}", name):
            return name
        return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()[:SHORT_ID]


def probe_messages() -> tuple[list[Message], list[Message]]:
    """A question and a call, and the tools that are offered: what a template is tested with."""
    call = {"id": "a1b2c3d4e", "type": "function", "function": {"name": NAME, "arguments": {ARGUMENT: VALUE}}}
    parameters = {"type": "object", "properties": {ARGUMENT: {"type": "string"}}}
    tool = {"type": "function", "function": {"name": NAME, "description": "Probes.", "parameters": parameters}}
    return [{"role": "user", "content": "a"}, {"role": "assistant", "content": "", "tool_calls": [call]}], [tool]


def format_of(prompt: str, written: str) -> ToolFormat | None:
    """The form of a template's calls, or None if it takes no tools, or writes calls in an unknown form.

    `prompt`: the question of `probe_messages` with the tools. `written`: the same with the call.
    """
    found = list(CALL_IN_PROBE.finditer(written))
    if NAME not in prompt or not found:
        return None
    before, after = written[: found[-1].start()], written[found[-1].end() :]
    field = found[-1][1]
    if (at := before.rfind(TAGS[0])) >= 0 and not before[at + len(TAGS[0]) :].strip() and TAGS[1] in after:
        return ToolFormat("tagged", before[at:], field)
    if (at := before.rfind(MARKER)) >= 0 and before[at + len(MARKER) :].strip() == "[":
        return ToolFormat("listed", MARKER, field)
    bare = len(before) == len(prompt) or before.rstrip().endswith(prompt.rstrip()[-8:])
    return ToolFormat("bare", "", field) if bare else None


def _moved(schema: Any, prefix: str) -> Any:
    """A schema whose references point to the definitions of the whole, which have this prefix."""
    if isinstance(schema, dict):
        return {
            name: re.sub(r"^#/(\$defs|definitions)/", f"#/$defs/{prefix}", value)
            if name == "$ref" and isinstance(value, str)
            else _moved(value, prefix)
            for name, value in schema.items()
        }
    return [_moved(one, prefix) for one in schema] if isinstance(schema, list) else schema
