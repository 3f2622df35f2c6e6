"""What the device stores: conversations with full-text search, the queue for the target, and memory."""

from storage.attachments import Attachment
from storage.calls import Call
from storage.choices import Choices
from storage.errors import (
    AlreadyFinished,
    NewerDatabase,
    NotADatabase,
    NotFound,
    StorageBusy,
    StorageError,
    StorageFailed,
    StorageFull,
    StorageReadOnly,
)
from storage.queue import Queued
from storage.records import Conversation, FinalStatus, Message, Role, Stats, Status
from storage.search import FoundConversation, FoundMessage
from storage.store import Store
from storage.transfer import WholeConversation
from storage.usage import Used

__all__ = [
    "AlreadyFinished",
    "Attachment",
    "Call",
    "Choices",
    "Conversation",
    "FinalStatus",
    "FoundConversation",
    "FoundMessage",
    "Message",
    "NewerDatabase",
    "NotADatabase",
    "NotFound",
    "Queued",
    "Role",
    "Stats",
    "Status",
    "StorageBusy",
    "StorageError",
    "StorageFailed",
    "StorageFull",
    "StorageReadOnly",
    "Store",
    "Used",
    "WholeConversation",
]
