"""Renders chat templates as transformers does, in Jinja's sandbox and without transformers.

The dialect is Jinja with `break` and `continue`, the functions `raise_exception` and `strftime_now`, a `tojson` without
HTML escapes, and the block `generation`. Its variables are `messages`, `add_generation_prompt`, `tools` and `documents`
(both None), and the texts of the tokenizer's special tokens, such as `bos_token`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from jinja2 import TemplateError, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from models.config import TEMPLATE, DrafterCorrupt, DrafterError

_CUT = "\ufdd1CUT"
"""Marks the end of an unfinished answer while it is rendered. The first character is a Unicode noncharacter."""
_HELD = "\ufdef"
"""Replaces, with a number, each message while a conversation is rendered: another noncharacter."""
FEW = 4
"""Most prompts that are rendered one by one."""

ADVICE = "Reinstall the drafter, or save the model's tokenizer again."


class TemplateFailed(DrafterError):
    """The chat template cannot render this conversation. The message says why."""


class TemplateUnreadable(DrafterCorrupt):
    """The chat template is not valid Jinja. `why`: Jinja's error."""

    def __init__(self, why: str) -> None:
        super().__init__(f"{TEMPLATE} cannot be read ({why}). {ADVICE}")
        self.why = why


class ChatTemplate:
    """A compiled template. `special_tokens`: name -> text, as in `special_tokens_map.json`.

    Raises `TemplateUnreadable`.
    """

    def __init__(self, source: str, special_tokens: Mapping[str, str]) -> None:
        self._special_tokens = dict(special_tokens)
        try:
            self._template = _environment().from_string(source)
        except Exception as error:  # Jinja compiles it to Python, so errors of Python come through too.
            raise TemplateUnreadable(_said(error)) from None

    def render_each(self, messages: Sequence[tuple[str, str]], ends: Sequence[int]) -> list[str]:
        """The prompt of `messages[:end]` for each of these ends, which increase; in time linear in the messages.

        Nearly every template writes a conversation message by message, so each prompt is the beginning of the last one,
        up to the answer. Raises `TemplateFailed`.
        """
        messages = messages[: ends[-1]]
        whole = self.render(messages)
        if len(ends) > FEW and (places := self._places(messages, ends[:-1], whole)) is not None:
            return [*(whole[:place] for place in places), whole]
        return [*(self.render(messages[:end]) for end in ends[:-1]), whole]

    def _places(self, messages: Sequence[tuple[str, str]], ends: Sequence[int], whole: str) -> list[int] | None:
        """Offsets in `whole` at which the answers after these ends begin; None if the prompts have to be rendered.

        The conversation is rendered once more with a number in place of each message; the messages must fit between
        what the template writes around the numbers. The text before an offset is then compared with the rendered prompt
        at the first end, at each one twice as far as the last compared, and at the last end.
        """
        if _HELD in whole or any(messages[end][0] != "assistant" for end in ends):
            return None
        said = [at for at, (role, _) in enumerate(messages) if role != "system"]
        held = [
            (role, content if role == "system" else f"{_HELD}{at}{_HELD}")
            for at, (role, content) in enumerate(messages)
        ]
        try:
            first, *rest = re.split(f"{_HELD}(\\d+){_HELD}", self.render(held))
        except TemplateFailed:
            return None
        if rest[::2] != list(map(str, said)) or not whole.startswith(first):
            return None
        begins, place = {}, len(first)
        for at, after in zip(said, rest[1::2]):
            content = messages[at][1]
            here = (one for one in (content, content.strip()) if whole.startswith(f"{one}{after}", place))
            if (written := next(here, None)) is None:
                return None
            begins[at] = place
            place += len(written) + len(after)
        places = [begins[end] for end in ends]
        tried = sorted({2**power - 1 for power in range(len(ends).bit_length())} | {len(ends) - 1})
        same = all(self.render(messages[: ends[one]]) == whole[: places[one]] for one in tried)
        return places if same and place == len(whole) else None

    def render(self, messages: Sequence[tuple[str, str]], *, begun: bool = False) -> str:
        """The text of a conversation, (role, content) in order, up to where the assistant's answer begins.

        With `begun`, the last message is the beginning of that answer, and the text ends with it. Raises
        `TemplateFailed`.
        """
        spoken = [{"role": role, "content": content} for role, content in messages]
        if begun:
            # The trailing space shows whether the template strips answers.
            spoken[-1]["content"] += f"{_CUT} "
        text = self.render_tools(spoken, None, ask=not begun)
        return _up_to_the_cut(text, messages[-1][1]) if begun else text

    def render_tools(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None, *, ask: bool = True
    ) -> str:
        """The text of a conversation whose messages may call tools and have their results, in OpenAI's form.

        `ask`: up to where the assistant's answer begins. Raises `TemplateFailed`.
        """
        variables = {"messages": messages, "tools": tools, "documents": None, "add_generation_prompt": ask}
        try:
            return self._template.render({**self._special_tokens, **variables})
        except Exception as error:  # A template is a program and may fail in any way.
            raise TemplateFailed(f"The chat template cannot render this conversation: {_said(error)}.") from None


def _up_to_the_cut(text: str, answer: str) -> str:
    before, cut, after = text.rpartition(_CUT)
    if not cut or answer.strip() not in before:
        raise TemplateFailed("The chat template changes an answer that is to be continued, so ask the question again.")
    return before if after.startswith(" ") else before.rstrip()


class _Generation(Extension):
    """The block `generation`, which marks the assistant's text for training. Here only its content is used."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_content"), [], [], body).set_lineno(line)

    def _content(self, caller: Macro) -> str:
        return str(caller())


class _Dict:
    """`dict(...)` for templates. The type itself would allow escaping the sandbox."""

    def __call__(self, *arguments: Any, **named: Any) -> dict[Any, Any]:
        return dict(*arguments, **named)

    def fromkeys(self, *arguments: Any) -> dict[Any, Any]:
        return dict.fromkeys(*arguments)


class _Namespace(Namespace):
    """`namespace(...)` for templates, without names that begin with an underscore, which Python keeps for itself."""

    def __init__(*arguments: Any, **named: Any) -> None:  # A template may pass an argument called `self`.
        self, *rest = arguments
        given = dict(*rest, **named)
        for name in given:
            _check_name(name)
        Namespace.__init__(self, given)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_name(name)
        super().__setitem__(name, value)


def _check_name(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(f"a namespace takes no name that begins with an underscore, such as {name!r}")


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, "jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _to_json
    environment.globals.update(raise_exception=_refuse, strftime_now=_strftime_now, dict=_Dict(), namespace=_Namespace)
    return environment


def _to_json(
    value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _refuse(message: str) -> None:
    raise TemplateError(message)


def _strftime_now(format: str) -> str:
    """The local time. Most templates that ask for it want the date."""
    return datetime.now().strftime(format)


def _said(error: Exception) -> str:
    return str(error).strip().rstrip(".") or type(error).__name__
