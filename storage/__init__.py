"""What is kept on the device: conversations with full-text search, what waits for the target, and memory."""

from storage.database import (
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
from storage.importing import Put, Whole
from storage.messages import Conversation, FinalStatus, Message, Role, Stats, Status
from storage.queue import Queued
from storage.search import Found, Hit
from storage.store import Store

__all__ = [
    "AlreadyFinished",
    "Conversation",
    "FinalStatus",
    "Found",
    "Hit",
    "Message",
    "NewerDatabase",
    "NotADatabase",
    "NotFound",
    "Put",
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
    "Whole",
]
