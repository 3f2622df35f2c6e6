"""Lists what the MCP servers of the open conversation offer: prompts after `/NAME:`, resources after `@NAME:`, and what
can be filled in there.

A server is asked in the background once its name and a colon are typed, and started for that if need be. Until it has
answered, the list says so. What it lists is another program's words: what a terminal could not show is left out.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Collection, Sequence
from functools import partial
from itertools import islice
from typing import Literal, NamedTuple

from app.attachments.mentions import mentions
from app.attachments.reader import one_line
from app.files import current_folder
from app.log import log
from app.reply.assistant import NotLoaded
from app.tools.tool import Blank, ServerPrompt, ServerResource, ToolGone, form_of
from app.tui.background import begin
from app.tui.completion import MOST, TYPED, Candidate, Completion, Provider
from app.tui.open_conversation import OpenConversation
from app.tui.slash import Misused, PromptOfServer
from app.tui.widgets.prompt import Prompt

Kind = Literal["prompts", "resources", "values"]
About = tuple[ServerPrompt | ServerResource, Blank]
Key = tuple[Kind, str, ServerPrompt | ServerResource | None]
"""What is listed of a server; the values by what they are for."""
MOST_TEMPLATES = 8
"""Most templates that are offered for what is typed. The server is asked about each of them."""
FRESH_SECONDS = 10.0
"""Age of a list from which the server is asked again. The old one is shown until it has answered."""
SLASH = re.compile(r"/([A-Za-z0-9_-]*)(?::(\S*)(\s.*)?)?", re.DOTALL)
"""The name of a server so far, and of its prompt, and what follows that."""
ARGUMENT = re.compile(r"""(?<!\S)([^\s=]+)=(?:"([^"]*)"|'([^']*)'|(\S*))""")
BEGUN = re.compile(r"""(?<!\S)([^\s=]+)=(?:"([^"\n]*)|'([^'\n]*)|([^\s"']*))\Z""")
"""An argument whose value is being typed."""
MOST_HELP = 200
"""Characters of a description that are shown."""
MOST_SAID = 1000
"""Characters of a message that are shown."""
NAMED = 10
"""Most prompts that one message names."""
SLOW_SECONDS = 0.5
"""Time after which a notice says that a server is being asked to fill in a prompt."""


class Listed(NamedTuple):
    """The last answer of a server. `asked`: when, on the monotonic clock; `trouble`: why there is nothing; `about`: for
    which prompt or template, and what was typed."""

    asked: float = float("-inf")
    found: Sequence[ServerPrompt | ServerResource | str] = ()
    trouble: str = ""
    about: About | None = None


class Listings:
    """Lists what `prompt` completes, and fills in a prompt of a server."""

    def __init__(self, prompt: Prompt, conversation: OpenConversation) -> None:
        self._prompt, self._conversation = prompt, conversation
        self._lists: dict[Key, Listed] = {}
        self._asking: set[Key] = set()
        self._filling: set[str] = set()
        """The texts that are to be replaced by questions that servers are writing."""

    def servers(self) -> Collection[str]:
        """The servers that the person has chosen for the conversation."""
        return self._conversation.choices.tools

    # ---- completion --------------------------------------------------------------------------------------------------

    def after_slash(self, commands: Provider) -> Provider:
        """Completes commands, and after them the servers, their prompts, and the arguments of these."""

        def complete(text: str, cursor: int) -> Completion | None:
            typed = SLASH.fullmatch(text[:cursor])
            if typed is None or (typed[2] is not None and typed[1] not in self.servers()):
                return commands(text, cursor)
            server, begun = typed[1], typed[2]
            if begun is None:
                found = commands(text, cursor) or Completion(0, cursor, (), eager=True)
                names = [one for one in self.servers() if one.startswith(server)]
                offered = [Candidate(f"/{one}:", f"/{one}:", "Prompts of this MCP server") for one in names]
                return found._replace(candidates=(*found.candidates, *offered))
            listed = self._listed("prompts", server)
            prompts = [one for one in listed.found if isinstance(one, ServerPrompt)]
            if typed[3] is not None:
                named = next((one for one in prompts if one.name == begun), None)
                return None if named is None else self._in_arguments(named, typed[3], cursor)
            prompts = sorted(prompts, key=lambda one: one.name)
            fitting = [one for one in prompts if one.name.lower().startswith(begun.lower())]
            offered = [
                Candidate(f"/{server}:{one.name}{' ' * bool(one.arguments)}", _usage(one), _help(one.description))
                for one in fitting[:MOST]
            ]
            return _or_trouble(Completion(0, cursor, tuple(offered), eager=True), text, listed, server)

        return complete

    def after_at(self, paths: Provider) -> Provider:
        """Completes paths, and before them the servers and their resources."""

        def complete(text: str, cursor: int) -> Completion | None:
            typed = TYPED.search(text[:cursor])
            if typed is None:
                return None
            server, colon, begun = typed[1].partition(":")
            if colon and server in self.servers():
                listed = self._listed("resources", server)
                resources = [one for one in listed.found if isinstance(one, ServerResource)]
                blanks = {one: blank for one in resources if (blank := one.blank(begun)) is not None}
                fitting = (
                    Candidate(f"{server}:{one.start}", one.uri, _help(one.name))
                    for one in resources
                    if (begun.lower() in one.uri.lower() or begun.lower() in one.name.lower()) and one not in blanks
                )
                nearest = sorted(blanks, key=lambda one: -len(blanks[one].before))[:MOST_TEMPLATES]
                filled = (found for one in nearest for found in self._in_template(begun, one, blanks[one]))
                offered = (*islice(fitting, MOST), *filled)
                return _or_trouble(Completion(typed.start(1), cursor, offered), text, listed, server)
            found = paths(text, cursor) or Completion(typed.start(1), cursor, ())
            names = [one for one in self.servers() if one.startswith(typed[1])]
            servers = (Candidate(f"{one}:", f"{one}:", "Resources of this MCP server") for one in names)
            return found._replace(candidates=(*servers, *found.candidates))

        return complete

    def _in_arguments(self, prompt: ServerPrompt, typed: str, cursor: int) -> Completion:
        """The values that the server proposes for the argument at the cursor, or the names of others."""
        begun = BEGUN.search(typed)
        if begun is not None and begun[1] in [one.name for one in prompt.arguments]:
            known = {one[1]: _value(one) for one in ARGUMENT.finditer(typed, 0, begun.start())}
            values = self._values(prompt, Blank(begun[1], _value(begun), known))
            offered = [Candidate(f"{begun[1]}={quoted} ", one) for one in values if (quoted := _quoted(one))]
            return Completion(cursor - len(begun[0]), cursor, tuple(offered))
        return _names_of_arguments(prompt, typed, cursor)

    def _in_template(self, begun: str, template: ServerResource, blank: Blank) -> list[Candidate]:
        """What the server proposes for the variable at the cursor, or its name, or the template as a reminder."""
        if blank.name:
            ways = [(blank.filled(one), one) for one in self._values(template, blank)]
        else:
            ways = [(f"{blank.before}{one}=", f"{one}=") for one in blank.names]
        found = [Candidate(f"{template.server}:{uri}", shown, template.uri) for uri, shown in ways]
        return found or [Candidate(f"{template.server}:{begun}", template.uri, _help(template.name))]

    def _values(self, of: ServerPrompt | ServerResource, blank: Blank) -> list[str]:
        return [one for one in self._listed("values", of.server, (of, blank)).found if isinstance(one, str)]

    def _listed(self, kind: Kind, server: str, about: About | None = None) -> Listed:
        """What is known now. Asks the server if nothing is known, or if it is old."""
        key = kind, server, None if about is None else about[0]
        known = self._lists.get(key, Listed())
        if known.about != about:
            known = Listed(about=about)
        if time.monotonic() - known.asked > FRESH_SECONDS and key not in self._asking:
            self._asking.add(key)
            begin(self._prompt, partial(self._ask, kind, server, about), group="listings")
        return known

    async def _ask(self, kind: Kind, server: str, about: About | None) -> None:
        found: Sequence[ServerPrompt | ServerResource | str] = ()
        trouble, key = f"{server} has no {kind}", (kind, server, None if about is None else about[0])
        try:
            tools = await self._conversation.core.tools()
            if about is not None:
                found = [one for one in await tools.values(*about) if one and one_line(one) == one]
            else:
                listed = await (tools.prompts(server) if kind == "prompts" else tools.resources(server))
                found = await asyncio.to_thread(lambda: [one for one in listed if _can_be_typed(one)])
        except (NotLoaded, ToolGone) as error:
            trouble = str(error)
        except Exception as error:  # Whatever a server does, the window stays.
            log.error("the %s of an MCP server could not be listed: %s", kind, type(error).__name__)
            trouble = f"{server} cannot list its {kind}: {error}"
        finally:
            self._asking.discard(key)
        self._lists[key] = Listed(time.monotonic(), found, "" if found else _help(trouble), about)
        if self._prompt.is_attached:  # Else the window has closed meanwhile.
            self._prompt.offer()

    # ---- filling in --------------------------------------------------------------------------------------------------

    async def fill(self, wanted: PromptOfServer, text: str) -> None:
        """Replace `text`, as it was typed, by the question that a prompt makes. It is read before it is sent.

        Does nothing if that is being done already.
        """
        if text in self._filling:
            return
        self._filling.add(text)
        slow = self._prompt.set_timer(SLOW_SECONDS, lambda: self._say(f"asking {wanted.server} …", "information"))
        try:
            tools = await self._conversation.core.tools()
            listed = await tools.prompts(wanted.server)
            found = next((one for one in listed if one.name == wanted.name), None)
            if found is None:
                known = ", ".join(sorted(one.name for one in listed)[:NAMED])
                more = f" and {len(listed) - NAMED} more" if len(listed) > NAMED else ""
                raise Misused(f"{wanted.server} has {f'these prompts: {known}{more}' if known else 'no prompts'}")
            values = _values(found, wanted.rest)
            missing = [one for one in found.arguments if one.required and not values.get(one.name)]
            if not missing:
                self._put(text, await tools.fill(found, values))
            elif self._prompt.full_text == text:
                beginning = f"{missing[0].name}=" if _shown(missing[0].name) else ""
                self._prompt.write(text if text.endswith(beginning) else f"{text.rstrip()} {beginning}")
                raise Misused(f"{wanted.name} needs {missing[0].name}. {_help(missing[0].description)}".rstrip())
        except (Misused, NotLoaded, ToolGone) as error:
            self._say(str(error), "warning")
        except Exception as error:  # Whatever a server does, the window stays.
            log.error("a prompt of an MCP server could not be filled in: %s", type(error).__name__)
            self._say(f"{wanted.server} cannot write {wanted.name}: {error}", "warning")
        finally:
            slow.stop()
            self._filling.discard(text)

    def _say(self, message: str, severity: Literal["information", "warning"]) -> None:
        said = one_line(message[:MOST_SAID])
        self._prompt.notify(said, title="Prompts", severity=severity, timeout=15, markup=False)

    def _put(self, text: str, filled: str) -> None:
        if self._prompt.is_attached and self._prompt.full_text == text:  # Else the person has written on.
            self._prompt.keep_in_reach(text.strip())
            self._prompt.take_over(filled)


def _values(prompt: ServerPrompt, typed: str) -> dict[str, str]:
    """The arguments that are typed: `name=value`, `name="two words"`. The rest is the first that is not named.

    Raises `Misused` if there is none.
    """
    names, values = [one.name for one in prompt.arguments], dict[str, str]()

    def take(found: re.Match[str]) -> str:
        if found[1] not in names:
            return found[0]
        values[found[1]] = _value(found)
        return ""

    if rest := ARGUMENT.sub(take, typed).strip():
        free = [name for name in names if name not in values]
        if not free:
            raise Misused(f"Write {_usage(prompt)}")
        values[free[0]] = rest
    return values


def _value(argument: re.Match[str]) -> str:
    return next(value for value in argument.groups()[1:] if value is not None)


def _quoted(value: str) -> str | None:
    """A value as it has to be typed, or None if it cannot be."""
    if not re.search(r"""[\s"']""", value):
        return value
    return next((f"{mark}{value}{mark}" for mark in "\"'" if mark not in value), None)


def _names_of_arguments(prompt: ServerPrompt, typed: str, cursor: int) -> Completion:
    """The arguments that are not typed yet, at the beginning of a word."""
    begun = re.split(r"\s", typed)[-1]
    offered = [
        Candidate(f"{one.name}=", f"{one.name}={'' if one.required else ' (may be left out)'}", _help(one.description))
        for one in prompt.arguments
        if _shown(one.name) and f" {one.name}=" not in typed and one.name.startswith(begun)
    ]
    return Completion(cursor - len(begun), cursor, tuple(offered))


def _or_trouble(completion: Completion, text: str, listed: Listed, server: str) -> Completion:
    """The completion, or a line that says why there are no candidates and changes nothing if chosen."""
    said = listed.trouble or (f"asking {server} …" if listed.asked < 0 else "")
    if completion.candidates or not said:
        return completion
    return Completion(completion.start, completion.end, (Candidate(text[completion.start : completion.end], said),))


def _usage(prompt: ServerPrompt) -> str:
    arguments = [one.name if one.required else f"[{one.name}]" for one in prompt.arguments]
    return one_line(" ".join([f"/{prompt.server}:{prompt.name}", *arguments])[:MOST_HELP])


def _help(text: str) -> str:
    return one_line(text[:MOST_HELP]) if text.strip() else ""


def _can_be_typed(one: ServerPrompt | ServerResource) -> bool:
    if isinstance(one, ServerPrompt):
        return _shown(one.name)
    if one.template:
        return _shown(one.uri) and form_of(one.uri) is not None
    named = f"{one.server}:{one.uri}"
    found = mentions(f"@{named}", current_folder(), [one.server])
    return _shown(one.uri) and [mention.raw for mention in found] == [named]


def _shown(name: str) -> bool:
    """Whether a name can be typed, and is what the screen shows."""
    return bool(name) and one_line(name) == name and " " not in name
