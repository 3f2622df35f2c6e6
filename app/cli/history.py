"""`outrider history`: the conversations on this device, without the chat.

stdout is data; exit codes: 0 ok, 1 there is no such conversation, 2 usage.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from os.path import commonprefix
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from app.cli import completion
from app.cli.options import Json
from app.cli.output import coloured, in_colour, print_json
from app.cli.settings import opened_store, read_store
from app.exits import complain

if TYPE_CHECKING:
    from storage import Conversation, FoundMessage, Store

MOST_FOUND = 50
"""Messages that a search prints by default."""
FOUND = "1"
"""The style of found words: bold."""
SHORTEST_ID = 6
"""Fewest characters of an id that are shown. They suffice wherever an id is expected, if no other id begins with
them."""

history_commands = typer.Typer(
    help="List, show, rename, remove and search conversations. Without a command, list them.", rich_markup_mode=None
)
Most = Annotated[int | None, typer.Option("-n", metavar="N", min=1, help="Only the newest N.")]
From = Annotated[
    Literal["chat", "shell"] | None,
    typer.Option("--from", help="Only those started in the shell (`outrider ask`) or in the chat (all others)."),
]
Tag = Annotated[str | None, typer.Option("--tag", metavar="TAG", help="Only those with this tag.")]
Binned = Annotated[bool, typer.Option("--bin", help="List what was removed in the last 30 days.")]
Id = Annotated[
    str, typer.Argument(metavar="ID", help="Id, or its first characters.", autocompletion=completion.conversations)
]
Ids = Annotated[
    list[str],
    typer.Argument(metavar="ID", help="Ids, or their first characters.", autocompletion=completion.conversations),
]


@history_commands.callback(invoke_without_command=True)
def history(
    context: typer.Context, most: Most = None, json: Json = False, origin: From = None, tag: Tag = None
) -> None:
    if context.invoked_subcommand is None:
        show_list(most=most, json=json, origin=origin, tag=tag)


@history_commands.command("list")
def show_list(
    most: Most = None, json: Json = False, binned: Binned = False, origin: From = None, tag: Tag = None
) -> None:
    """List conversations, the most recent first: id, date, title."""
    from app.sanitise import sanitise
    from storage.choices import ASKED
    from storage.tags import tag_from

    def begun(one: Conversation) -> str:
        return "shell" if one.choices.origin == ASKED else "chat"

    with read_store() as store:
        everything = store.bin.conversations() if binned else store.conversations.recent(sys.maxsize)
    wanted = [one for one in everything if tag is None or tag_from(tag) in one.choices.tags]
    shown = [one for one in wanted if origin in (None, begun(one))][:most]
    if not shown and not json:
        complain("the bin is empty" if binned and not everything else "no conversations")
    if json:
        for one in shown:
            about = {"title": one.title, "created": one.created, "updated": one.updated, "pinned": one.pinned}
            print_json({"id": one.id, **about, "from": begun(one), "tags": one.choices.tags})
        return
    short = short_ids([one.id for one in everything])
    for one in shown:
        print(short[one.id], _local(one.updated), sanitise(one.title) or "Untitled", sep="  ")


@history_commands.command("show")
def show(
    identifier: Annotated[
        str | None,
        typer.Argument(
            metavar="ID",
            help="Id, or its first characters. Default: the last conversation.",
            autocompletion=completion.conversations,
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, as `outrider export` writes it.")] = False,
) -> None:
    """Print a conversation."""
    from app.cli.archive import print_conversation

    raise typer.Exit(print_conversation(identifier, "json" if json else "md"))


@history_commands.command("rename")
def rename(identifier: Id, title: Annotated[list[str], typer.Argument(metavar="TITLE", help="New title.")]) -> None:
    """Rename a conversation."""
    with opened_store() as store:
        store.conversations.rename(store.conversations.find(identifier).id, " ".join(title))


@history_commands.command("tag")
def tag_one(
    identifier: Id,
    tags: Annotated[
        list[str] | None, typer.Argument(metavar="TAG", help="Tags to add. Without any, print them.")
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove these tags instead.")] = False,
) -> None:
    """Tag a conversation. In a search, `#TAG` finds those that have it."""
    with opened_store() as store:
        found, named = store.conversations.find(identifier).id, tags or []
        kept = store.conversations.tag(found, *(((), named) if remove else (named, ())))
    print(" ".join(kept))


@history_commands.command("rm")
def remove(identifiers: Ids) -> None:
    """Remove conversations. For 30 days, `outrider history restore` can restore them."""
    with opened_store() as store:
        for one in _found(store, identifiers):
            store.bin.delete(one.id)
            complain(f"removed; to restore it: outrider history restore {one.id}")


@history_commands.command("restore")
def restore(
    identifiers: Annotated[
        list[str], typer.Argument(metavar="ID", help="Ids, as `outrider history list --bin` lists them.")
    ],
) -> None:
    """Restore removed conversations."""
    with opened_store() as store:
        for one in [store.bin.find(identifier) for identifier in identifiers]:
            store.bin.restore(one.id)


@history_commands.command("search")
def search(
    words: Annotated[
        list[str],
        typer.Argument(metavar="WORD", help="Words to find. All must occur. #TAG: in conversations with that tag."),
    ],
    most: Most = None,
    json: Json = False,
) -> None:
    """Find messages that contain all words. One line each: conversation id, date, role, text around the words.

    For unchecked text, the role includes the name of the model that wrote it.
    """
    from app.events import unchecked
    from app.sanitise import sanitise

    with read_store() as store:
        hits = store.search.messages(" ".join(words), most or MOST_FOUND)
        if not hits:
            complain("Nothing was found.")
        short = short_ids([one.id for one in store.conversations.recent(sys.maxsize)])
    for hit in hits:
        message = hit.message
        if json:
            where = {"conversation": message.conversation_id, "message": message.id, "created": message.created}
            about = {"role": message.role, "unchecked": unchecked(message.stats) or None}
            print_json({**where, **about, "text": message.text})
        else:
            said = unchecked(message.stats)
            role = f"{message.role} ({sanitise(said)})" if said else message.role
            print(short[message.conversation_id], _local(message.created), role, _snippet(hit), sep="  ")


def _snippet(hit: FoundMessage) -> str:
    """The text around the words in one line. With colours, the words are bold."""
    from app.sanitise import sanitise

    bold = in_colour(sys.stdout)
    pieces, at = [], 0
    for start, end in hit.marks:
        found = sanitise(hit.snippet[start:end])
        pieces += [sanitise(hit.snippet[at:start]), coloured(found, FOUND) if bold else found]
        at = end
    return " ".join("".join([*pieces, sanitise(hit.snippet[at:])]).split())


def short_ids(ids: Iterable[str]) -> dict[str, str]:
    """The beginning of each id, as long as needed to distinguish it from all others.

    >>> short_ids(["c0ffee01", "c0ffee02", "deadbeef"])
    {'c0ffee01': 'c0ffee01', 'c0ffee02': 'c0ffee02', 'deadbeef': 'deadbe'}
    """
    ordered = sorted(ids)
    return {
        one: one[: max(SHORTEST_ID, *(len(commonprefix((one, other))) + 1 for other in beside))]
        for one, beside in zip(ordered, zip(["", *ordered], [*ordered[1:], ""]))
    }


def _found(store: Store, identifiers: Sequence[str]) -> list[Conversation]:
    """Finds all of them before any is changed. Raises `NotFound`."""
    return [store.conversations.find(identifier) for identifier in dict.fromkeys(identifiers)]


def _local(moment: str) -> str:
    """A stored time in the time zone of this device."""
    try:
        return datetime.fromisoformat(moment).astimezone().strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError):  # An import may hold anything.
        return moment[:16].replace("T", " ")
