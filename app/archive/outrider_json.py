"""The lossless JSON format: `outrider export --format json` writes it and `outrider import` reads it.

`docs/data.md` describes it. A file is one object with one conversation per line, so that neither side needs all of them
in memory. Raise `VERSION` for a change that an older reader would misunderstand. Optional fields may be added without
that: a reader skips unknown fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Annotated, Literal

import msgspec

from app.archive.errors import Unreadable, Unsuitable
from app.config import Settings
from app.sanitise import escape_json
from storage import Attachment, Call, Choices, Conversation, Message, Queued, Role, Status, WholeConversation
from storage.calls import CallState
from storage.tags import tags_from

FORMAT = "outrider-conversations"
VERSION = 1
ANSWERING = (
    "mode", "temperature", "top_k", "top_p", "seed", "max_tokens", "tree", "pace", "depth", "breadth", "nodes",
    "second_stage", "ahead",
)  # fmt: skip
"""The settings that influence answers. Never an address, a path or a token."""

Id = Annotated[str, msgspec.Meta(pattern="^[0-9A-Za-z_-]{1,64}$")]
Time = Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?\+00:00$")]
Token = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
Name = Annotated[str, msgspec.Meta(pattern="^[0-9A-Za-z_.-]{1,64}$")]
MediaType = Annotated[
    str, msgspec.Meta(pattern=r"^(text|image)/[0-9a-z.+-]{1,64}(;[a-z]{1,16}=[0-9a-z]{1,16}){0,8}$", max_length=256)
]
Line = Annotated[str, msgspec.Meta(pattern=r"^[^\x00-\x1f\x7f-\x9f]{0,256}$")]
"""One line of text. Ids, times, names and values are shown as they are, so none may contain control characters."""
Value = bool | int | float | Line | None


class AttachmentRecord(msgspec.Struct, omit_defaults=True):
    """An attached file. It has either text or data."""

    name: Annotated[str, msgspec.Meta(max_length=4096)]
    """The file's name as the person wrote it. It may hold any characters."""
    type: MediaType
    text: str | None = None
    """The content of a text file in UTF-8."""
    data: bytes | None = None
    """The content of any other file, in base64."""


class CallRecord(msgspec.Struct, omit_defaults=True):
    """A tool call of an answer, in the order in which the model asked for them."""

    turn: Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
    at: Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
    call_id: str
    server: str
    tool: str
    arguments: str
    state: CallState
    result: str = ""
    asked: Time | Literal[""] = ""
    ended: Time | Literal[""] = ""


class MessageRecord(msgspec.Struct, omit_defaults=True):
    id: Id
    parent: Id | None
    role: Role
    text: str
    status: Status
    tokens: list[Token]
    provenance: Annotated[str, msgspec.Meta(pattern="^[vd]*$")]
    """One letter per token: `v` for verified by the target, `d` for drafted only."""
    stats: dict[Name, Value | Sequence[Mapping[Name, Value] | Sequence[int | str]]]
    """Includes `verifies` and `resumes`, the ids of related messages, which are columns in the database."""
    created: Time
    attachments: list[AttachmentRecord] = []
    reasoning: str = ""
    """The model's thoughts before its answer."""
    calls: list[CallRecord] = []
    summary: bool = False
    """It asks for a summary of the messages above it, or is that summary."""


class QueueRecord(msgspec.Struct, omit_defaults=True):
    """A queue entry in the file. It has either a text or a message."""

    id: Id
    created: Time
    text: str | None = None
    """A prompt that was not sent yet."""
    message: Id | None = None
    """Id of an answer that the target is to verify."""
    place: int = 0
    """Sort key across all conversations: the lowest place is sent first."""
    attachments: list[AttachmentRecord] = []


class ConversationRecord(msgspec.Struct):
    id: Id
    title: str
    created: Time
    updated: Time
    tip: Id | None
    messages: list[MessageRecord]
    pinned: bool = False
    choices: Choices = Choices()
    """The conversation's own choices: server, model, system prompt, sampling."""
    queue: list[QueueRecord] = []


class ExportHead(msgspec.Struct):
    """The fields that can be read even if the rest of a file or a conversation is broken."""

    format: str = ""
    version: int = 0
    title: str = ""


class ExportFile(msgspec.Struct):
    """A file with its conversations still as undecoded text."""

    conversations: list[msgspec.Raw]


# ---- out -------------------------------------------------------------------------------------------------------------


def encode(conversations: Iterable[WholeConversation], settings: Settings, program: str) -> Iterator[str]:
    """Yields the file in pieces."""
    head = {
        "format": FORMAT,
        "version": VERSION,
        "exported": datetime.now(UTC).isoformat(timespec="seconds"),
        "program": program,
        "settings": {name: getattr(settings, name) for name in ANSWERING},
    }
    yield _printable(msgspec.json.encode(head))[:-1] + ',"conversations":['
    separator = "\n"
    for whole in conversations:
        yield separator + _printable(msgspec.json.encode(_record(whole)))
        separator = ",\n"
    yield "\n]}\n"


def _printable(encoded: bytes) -> str:
    return escape_json(encoded.decode())


def _record(whole: WholeConversation) -> ConversationRecord:
    conversation = whole.conversation
    return ConversationRecord(
        id=conversation.id,
        title=conversation.title,
        created=conversation.created,
        updated=conversation.updated,
        tip=conversation.tip_id,
        pinned=conversation.pinned,
        choices=conversation.choices,
        messages=[
            MessageRecord(
                id=message.id,
                parent=message.parent_id,
                role=message.role,
                text=message.text,
                status=message.status,
                tokens=list(message.tokens),
                provenance="".join("v" if verified else "d" for verified in message.provenance),
                stats={**message.stats, **_relations(message)},
                created=message.created,
                attachments=list(map(_attachment_record, message.attachments)),
                reasoning=message.reasoning,
                calls=list(map(_call_record, message.calls)),
                summary=message.summary,
            )
            for message in whole.messages
        ],
        queue=[
            QueueRecord(
                id=queued.id,
                created=queued.created,
                text=queued.text if queued.message_id is None else None,
                message=queued.message_id,
                place=queued.place,
                attachments=list(map(_attachment_record, queued.attachments)),
            )
            for queued in whole.queue
        ],
    )


def _attachment_record(attachment: Attachment) -> AttachmentRecord:
    record = AttachmentRecord(attachment.name, attachment.media_type)
    if attachment.is_text and attachment.text.encode() == attachment.data:
        record.text = attachment.text
    else:
        record.data = attachment.data
    return record


def _call_record(call: Call) -> CallRecord:
    return CallRecord(**{name: value for name, value in asdict(call).items() if name != "place"})


def _relations(message: Message) -> dict[str, str]:
    """The relations to other messages, which the format keeps among the statistics."""
    relations = {"verifies": message.verifies, "resumes": message.resumes}
    return {name: related for name, related in relations.items() if related is not None}


# ---- in --------------------------------------------------------------------------------------------------------------


def is_ours(data: bytes) -> bool:
    """True if a file claims to be of this format, in any version."""
    try:
        return msgspec.json.decode(data, type=ExportHead).format == FORMAT
    except (msgspec.DecodeError, UnicodeDecodeError):
        # A truncated export is not valid JSON, but the error should still name it an export.
        return data.lstrip().startswith(b'{"format":"' + FORMAT.encode())


def title(raw: msgspec.Raw) -> str:
    """The title of a conversation, even if the rest of it is broken; empty if there is none."""
    try:
        return msgspec.json.decode(raw, type=ExportHead).title
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""


def decode(data: bytes, name: str) -> list[msgspec.Raw]:
    """The conversations of a file, each to be read by `conversation`. Raises `Unreadable`, which names the file."""
    try:
        version = msgspec.json.decode(data, type=ExportHead).version
        if version > VERSION:
            raise Unreadable(
                f"{name} was exported by a newer Outrider (format {version}, and this one reads up to {VERSION}); "
                "update Outrider to import it."
            )
        archive = msgspec.json.decode(data, type=ExportFile)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unreadable(f"{name} is not a complete export of Outrider: {_plain(error)}. Export it again.") from None
    return archive.conversations


def checked(whole: WholeConversation) -> WholeConversation:
    """Checks a conversation from another source as if it had been read from a file. Raises `Unsuitable`."""
    return conversation(msgspec.Raw(msgspec.json.encode(_record(whole))))


def conversation(raw: msgspec.Raw) -> WholeConversation:
    """Reads one conversation. Raises `Unsuitable` if it cannot be stored as it is."""
    try:
        record = msgspec.json.decode(raw, type=ConversationRecord)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unsuitable(_plain(error)) from None
    messages = tuple(_message(message, record.id) for message in _parents_first(record.messages))
    ids = {message.id for message in messages}
    queue = tuple(_queued(queued, record.id) for queued in record.queue)
    waiting = [queued.message_id for queued in queue if queued.message_id is not None]
    answers = {message.id for message in messages if message.role == "assistant"}
    if len(set(waiting)) < len(waiting) or not answers.issuperset(waiting):
        raise Unsuitable("its queue has an answer that the conversation does not have, or the same one twice")
    if record.tip is not None and record.tip not in ids:
        raise Unsuitable(f"its last shown message, {record.tip}, is missing")
    return WholeConversation(
        Conversation(
            record.id,
            record.title,
            record.tip,
            created=record.created,
            updated=record.updated,
            pinned=record.pinned,
            # A file may not say yes, and its tags are such as can be typed.
            choices=msgspec.structs.replace(record.choices, tools=(), allowed=(), tags=tags_from(record.choices.tags)),
        ),
        messages,
        queue,
    )


def _parents_first(records: list[MessageRecord]) -> Iterator[MessageRecord]:
    """Keeps the order, except that no message comes before its parent. Raises `Unsuitable`."""
    by_id = {record.id: record for record in records}
    if len(by_id) < len(records):
        raise Unsuitable("two of its messages have the same id")
    done: set[str] = set()
    for record in records:
        line: list[MessageRecord] = []
        at: MessageRecord | None = record
        while at is not None and at.id not in done:
            done.add(at.id)
            line.append(at)
            if at.parent is None:
                break
            if (above := by_id.get(at.parent)) is None:
                raise Unsuitable(f"the message before {at.id}, {at.parent}, is missing")
            if above.id in done and any(above is below for below in line):
                raise Unsuitable(f"message {above.id} is its own ancestor")
            at = above
        yield from reversed(line)


def _message(record: MessageRecord, conversation_id: str) -> Message:
    if record.attachments and record.role != "user":
        raise Unsuitable(f"message {record.id} has files, but is not a question")
    if record.calls and record.role != "assistant":
        raise Unsuitable(f"message {record.id} has tool calls, but is not an answer")
    if len(record.tokens) != len(record.provenance):
        raise Unsuitable(f"message {record.id} has {len(record.tokens)} tokens, but {len(record.provenance)} verdicts")
    return Message(
        id=record.id,
        conversation_id=conversation_id,
        parent_id=record.parent,
        role=record.role,
        text=record.text,
        status=record.status,
        tokens=tuple(record.tokens),
        provenance=tuple(letter == "v" for letter in record.provenance),
        verifies=_related(record, "verifies"),
        resumes=_related(record, "resumes"),
        stats=record.stats,
        created=record.created,
        attachments=tuple(map(_attachment, record.attachments)),
        reasoning=record.reasoning,
        calls=tuple(_call(place, call) for place, call in enumerate(record.calls)),
        summary=record.summary,
    )


def _call(place: int, record: CallRecord) -> Call:
    """A call from a file. One that was being made there is not made here: nobody knows how it ended."""
    call = Call(place, **msgspec.structs.asdict(record))
    return replace(call, state="unknown") if call.state == "running" else call


def _related(record: MessageRecord, relation: str) -> str | None:
    """Removes the id of a related message from the statistics and returns it, or None."""
    related = record.stats.get(relation)
    if not isinstance(related, str):
        return None
    del record.stats[relation]
    return related


def _queued(record: QueueRecord, conversation_id: str) -> Queued:
    if (record.text is None) == (record.message is None):
        raise Unsuitable(f"{record.id} in its queue is neither a prompt nor an answer")
    files = tuple(map(_attachment, record.attachments))
    if files and record.text is None:
        raise Unsuitable(f"{record.id} in its queue is an answer, and has files")
    return Queued(record.id, conversation_id, record.message, record.text or "", record.created, record.place, files)


def _attachment(record: AttachmentRecord) -> Attachment:
    if (record.text is None) == (record.data is None):
        raise Unsuitable("one of its files has neither text nor data, or both")
    data = record.data if record.text is None else record.text.encode("utf-8", "replace")
    return Attachment(record.name, record.type, data or b"")


def _plain(error: Exception) -> str:
    sentence = str(error).replace("`", "")
    return sentence[:1].lower() + sentence[1:]
