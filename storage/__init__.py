"""What is kept on the device: conversations with full-text search, and the drafter's memory of them."""

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
from storage.messages import Conversation, FinalStatus, Message, Role, Stats, Status
from storage.search import Hit
from storage.store import Store

__all__ = [
    "AlreadyFinished",
    "Conversation",
    "FinalStatus",
    "Hit",
    "Message",
    "NewerDatabase",
    "NotADatabase",
    "NotFound",
    "Role",
    "Stats",
    "Status",
    "StorageBusy",
    "StorageError",
    "StorageFailed",
    "StorageFull",
    "StorageReadOnly",
    "Store",
]
