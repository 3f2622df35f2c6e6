"""The schema, as named migrations: each runs once on every database, in this order, all in one transaction.

A migration that has shipped never changes; a change to the schema is a new function at the end. `Database` copies an
existing database to a file next to it before it applies any.

What the code relies on is a constraint of the tables, because two processes may write at once: a parent and a tip lie
in their own conversation, every token has its provenance, a finished message never changes except that it is deleted,
and nothing that is deleted is shown or followed by anything. `messages.owner` names the open `Store` that is still
writing the message; it is null once the message is finished.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.sqlite import Migrations
from storage.words import words

if TYPE_CHECKING:
    import sqlite_utils

MIGRATIONS = Migrations("outrider")
migration = MIGRATIONS.register


# The integer keys are for FTS5, whose rows have the numbers of the messages. A VACUUM may renumber a table that has no
# integer primary key, and the index would then point at other texts.


@migration
def m001_conversations(database: sqlite_utils.Database) -> None:
    database.executescript("""
        CREATE TABLE conversations (
            key INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            title TEXT NOT NULL,
            tip_id TEXT,
            created TEXT NOT NULL,
            updated TEXT NOT NULL,
            FOREIGN KEY (id, tip_id) REFERENCES messages (conversation_id, id)
        );

        CREATE TABLE messages (
            key INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            conversation_id TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
            parent_id TEXT,
            role TEXT NOT NULL CHECK (role IN ('system', 'user', 'assistant')),
            text TEXT NOT NULL,
            status TEXT NOT NULL CHECK (status IN ('pending', 'streaming', 'done', 'stopped', 'failed')),
            tokens BLOB NOT NULL DEFAULT x'',
            provenance BLOB NOT NULL DEFAULT x'',
            stats TEXT NOT NULL DEFAULT '{}',
            owner TEXT,
            created TEXT NOT NULL,
            UNIQUE (conversation_id, id),
            FOREIGN KEY (conversation_id, parent_id) REFERENCES messages (conversation_id, id),
            CHECK (length(tokens) = 4 * length(provenance)),
            CHECK ((owner IS NULL) = (status IN ('done', 'stopped', 'failed')))
        );
        CREATE INDEX messages_by_parent ON messages (conversation_id, parent_id);
        CREATE INDEX messages_by_owner ON messages (owner) WHERE owner IS NOT NULL;

        CREATE TRIGGER messages_keep_their_place
        BEFORE UPDATE OF key, id, conversation_id, parent_id, role, created ON messages BEGIN
            SELECT RAISE(ABORT, 'a message never moves');
        END;
        CREATE TRIGGER messages_finish_once
        BEFORE UPDATE ON messages WHEN old.owner IS NULL BEGIN
            SELECT RAISE(ABORT, 'a finished message never changes');
        END;

        CREATE TABLE partials (
            message_id TEXT PRIMARY KEY REFERENCES messages (id) ON DELETE CASCADE,
            text TEXT NOT NULL,
            tokens BLOB NOT NULL,
            provenance BLOB NOT NULL,
            CHECK (length(tokens) = 4 * length(provenance))
        );
    """)


# A search at every letter typed is a search for beginnings of words: two letters that match all of 20,000 messages take
# 46 ms with the prefix index and 440 ms without.


@migration
def m002_search(database: sqlite_utils.Database) -> None:
    database.executescript("""
        CREATE VIRTUAL TABLE messages_fts USING fts5 (
            text, content='messages', content_rowid='key',
            tokenize='porter unicode61 remove_diacritics 2', prefix='2 3'
        );
        INSERT INTO messages_fts (messages_fts) VALUES ('rebuild');

        CREATE TRIGGER messages_index_insert AFTER INSERT ON messages BEGIN
            INSERT INTO messages_fts (rowid, text) VALUES (new.key, new.text);
        END;
        CREATE TRIGGER messages_index_update AFTER UPDATE OF text ON messages BEGIN
            INSERT INTO messages_fts (messages_fts, rowid, text) VALUES ('delete', old.key, old.text);
            INSERT INTO messages_fts (rowid, text) VALUES (new.key, new.text);
        END;
        CREATE TRIGGER messages_index_delete AFTER DELETE ON messages BEGIN
            INSERT INTO messages_fts (messages_fts, rowid, text) VALUES ('delete', old.key, old.text);
        END;
    """)


@migration
def m003_memory(database: sqlite_utils.Database) -> None:
    database.executescript("""
        CREATE TABLE memories (
            key INTEGER PRIMARY KEY,
            conversation_id TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
            digest BLOB NOT NULL,
            bytes INTEGER NOT NULL DEFAULT 0,
            used INTEGER NOT NULL,
            UNIQUE (conversation_id, digest)
        );
        CREATE TABLE memory_chunks (
            key INTEGER PRIMARY KEY,
            memory_key INTEGER NOT NULL REFERENCES memories (key) ON DELETE CASCADE,
            start INTEGER NOT NULL CHECK (start >= 0),
            count INTEGER NOT NULL CHECK (count > 0),
            data BLOB NOT NULL
        );
        CREATE UNIQUE INDEX memory_chunks_by_start ON memory_chunks (memory_key, start, count);

        CREATE TRIGGER memory_chunks_insert AFTER INSERT ON memory_chunks BEGIN
            UPDATE memories SET bytes = bytes + length(new.data) WHERE key = new.memory_key;
        END;
        CREATE TRIGGER memory_chunks_delete AFTER DELETE ON memory_chunks BEGIN
            UPDATE memories SET bytes = bytes - length(old.data) WHERE key = old.memory_key;
        END;
    """)


# A row is a prompt that was not sent yet, or an answer that the target is still to give or to verify. A prompt's row
# becomes the row of its answer in the transaction that stores both. `answer_id` is the new version of an answer that is
# being written to verify it.


@migration
def m004_queue(database: sqlite_utils.Database) -> None:
    database.executescript("""
        CREATE TABLE queue (
            key INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            conversation_id TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
            text TEXT,
            message_id TEXT UNIQUE,
            answer_id TEXT,
            created TEXT NOT NULL,
            FOREIGN KEY (conversation_id, message_id) REFERENCES messages (conversation_id, id) ON DELETE CASCADE,
            FOREIGN KEY (conversation_id, answer_id) REFERENCES messages (conversation_id, id) ON DELETE CASCADE,
            CHECK ((text IS NULL) = (message_id IS NOT NULL)),
            CHECK (answer_id IS NULL OR message_id IS NOT NULL)
        );
        CREATE INDEX queue_by_conversation ON queue (conversation_id);
        CREATE INDEX queue_by_answer ON queue (answer_id);
    """)


# `deleted` is the time when something was put in the bin. Everything that one deletion hides has the same time, so it
# comes back together. A finished message may change in no column that `messages_finish_once` names. Nothing in the bin
# is indexed: the indexes read the views. In 100,000 messages the beginning of a word takes 13 ms if beginnings of that
# length have an index; without it, one letter takes 80 ms and four take 30. Four such indexes are a third of the
# database.


@migration
def m005_bin_and_titles(database: sqlite_utils.Database) -> None:
    database.executescript("""
        ALTER TABLE conversations ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0 CHECK (pinned IN (0, 1));
        ALTER TABLE conversations ADD COLUMN deleted TEXT;
        ALTER TABLE messages ADD COLUMN deleted TEXT;
        CREATE INDEX messages_by_deleted ON messages (deleted) WHERE deleted IS NOT NULL;

        DROP TRIGGER messages_finish_once;
        CREATE TRIGGER messages_finish_once
        BEFORE UPDATE OF text, status, tokens, provenance, stats, owner ON messages WHEN old.owner IS NULL BEGIN
            SELECT RAISE(ABORT, 'a finished message never changes');
        END;

        CREATE TRIGGER conversations_take_their_messages AFTER UPDATE OF deleted ON conversations BEGIN
            UPDATE messages SET deleted = new.deleted WHERE conversation_id = new.id AND deleted IS old.deleted;
        END;
        CREATE TRIGGER messages_follow_what_is_there BEFORE INSERT ON messages BEGIN
            SELECT RAISE(ABORT, 'nothing follows what is deleted') WHERE EXISTS (
                SELECT 1 FROM conversations WHERE id = new.conversation_id AND deleted IS NOT NULL
                UNION ALL SELECT 1 FROM messages WHERE id = new.parent_id AND deleted IS NOT NULL
            );
        END;
        CREATE TRIGGER conversations_show_what_is_there
        BEFORE UPDATE OF tip_id ON conversations WHEN new.deleted IS NULL BEGIN
            SELECT RAISE(ABORT, 'a deleted message is not shown') WHERE EXISTS (
                SELECT 1 FROM messages WHERE id = new.tip_id AND deleted IS NOT NULL
            );
        END;
        CREATE TRIGGER messages_are_not_deleted_while_shown
        BEFORE UPDATE OF deleted ON messages WHEN new.deleted IS NOT NULL BEGIN
            SELECT RAISE(ABORT, 'a deleted message is not shown') WHERE EXISTS (
                SELECT 1 FROM conversations WHERE id = new.conversation_id AND tip_id = new.id AND deleted IS NULL
            );
        END;

        DROP TRIGGER messages_index_insert;
        DROP TRIGGER messages_index_update;
        DROP TRIGGER messages_index_delete;
        DROP TABLE messages_fts;
        CREATE VIEW messages_found AS SELECT key, text FROM messages WHERE deleted IS NULL;
        CREATE VIEW titles_found AS SELECT key, title FROM conversations WHERE deleted IS NULL;
        CREATE VIRTUAL TABLE messages_fts USING fts5 (
            text, content='messages_found', content_rowid='key',
            tokenize='porter unicode61 remove_diacritics 2', prefix='1 2 3 4'
        );
        CREATE VIRTUAL TABLE titles_fts USING fts5 (
            title, content='titles_found', content_rowid='key',
            tokenize='porter unicode61 remove_diacritics 2', prefix='1 2 3 4'
        );
        INSERT INTO messages_fts (messages_fts) VALUES ('rebuild');
        INSERT INTO titles_fts (titles_fts) VALUES ('rebuild');

        CREATE TRIGGER messages_index_insert AFTER INSERT ON messages WHEN new.deleted IS NULL BEGIN
            INSERT INTO messages_fts (rowid, text) VALUES (new.key, new.text);
        END;
        CREATE TRIGGER messages_index_update AFTER UPDATE OF text, deleted ON messages BEGIN
            INSERT INTO messages_fts (messages_fts, rowid, text)
                SELECT 'delete', old.key, old.text WHERE old.deleted IS NULL;
            INSERT INTO messages_fts (rowid, text) SELECT new.key, new.text WHERE new.deleted IS NULL;
        END;
        CREATE TRIGGER messages_index_delete AFTER DELETE ON messages WHEN old.deleted IS NULL BEGIN
            INSERT INTO messages_fts (messages_fts, rowid, text) VALUES ('delete', old.key, old.text);
        END;
        CREATE TRIGGER titles_index_insert AFTER INSERT ON conversations WHEN new.deleted IS NULL BEGIN
            INSERT INTO titles_fts (rowid, title) VALUES (new.key, new.title);
        END;
        CREATE TRIGGER titles_index_update AFTER UPDATE OF title, deleted ON conversations BEGIN
            INSERT INTO titles_fts (titles_fts, rowid, title)
                SELECT 'delete', old.key, old.title WHERE old.deleted IS NULL;
            INSERT INTO titles_fts (rowid, title) SELECT new.key, new.title WHERE new.deleted IS NULL;
        END;
        CREATE TRIGGER titles_index_delete AFTER DELETE ON conversations WHEN old.deleted IS NULL BEGIN
            INSERT INTO titles_fts (titles_fts, rowid, title) VALUES ('delete', old.key, old.title);
        END;
    """)


# `words` is what the index reads instead of a text that has no spaces between words (`storage/words.py`); null for any
# other text. A view cannot compute it: it would need a function that other versions and other programs do not have.


@migration
def m006_words(database: sqlite_utils.Database) -> None:
    database.executescript("""
        ALTER TABLE conversations ADD COLUMN words TEXT;
        ALTER TABLE messages ADD COLUMN words TEXT;
        DROP VIEW messages_found;
        DROP VIEW titles_found;
        CREATE VIEW messages_found AS SELECT key, coalesce(words, text) AS text FROM messages WHERE deleted IS NULL;
        CREATE VIEW titles_found AS
            SELECT key, coalesce(words, title) AS title FROM conversations WHERE deleted IS NULL;
        DROP TRIGGER messages_index_insert;
        DROP TRIGGER messages_index_update;
        DROP TRIGGER messages_index_delete;
        DROP TRIGGER titles_index_insert;
        DROP TRIGGER titles_index_update;
        DROP TRIGGER titles_index_delete;

        CREATE TRIGGER messages_index_insert AFTER INSERT ON messages WHEN new.deleted IS NULL BEGIN
            INSERT INTO messages_fts (rowid, text) VALUES (new.key, coalesce(new.words, new.text));
        END;
        CREATE TRIGGER messages_index_update AFTER UPDATE OF text, words, deleted ON messages BEGIN
            INSERT INTO messages_fts (messages_fts, rowid, text)
                SELECT 'delete', old.key, coalesce(old.words, old.text) WHERE old.deleted IS NULL;
            INSERT INTO messages_fts (rowid, text)
                SELECT new.key, coalesce(new.words, new.text) WHERE new.deleted IS NULL;
        END;
        CREATE TRIGGER messages_index_delete AFTER DELETE ON messages WHEN old.deleted IS NULL BEGIN
            INSERT INTO messages_fts (messages_fts, rowid, text)
                VALUES ('delete', old.key, coalesce(old.words, old.text));
        END;
        CREATE TRIGGER titles_index_insert AFTER INSERT ON conversations WHEN new.deleted IS NULL BEGIN
            INSERT INTO titles_fts (rowid, title) VALUES (new.key, coalesce(new.words, new.title));
        END;
        CREATE TRIGGER titles_index_update AFTER UPDATE OF title, words, deleted ON conversations BEGIN
            INSERT INTO titles_fts (titles_fts, rowid, title)
                SELECT 'delete', old.key, coalesce(old.words, old.title) WHERE old.deleted IS NULL;
            INSERT INTO titles_fts (rowid, title)
                SELECT new.key, coalesce(new.words, new.title) WHERE new.deleted IS NULL;
        END;
        CREATE TRIGGER titles_index_delete AFTER DELETE ON conversations WHEN old.deleted IS NULL BEGIN
            INSERT INTO titles_fts (titles_fts, rowid, title)
                VALUES ('delete', old.key, coalesce(old.words, old.title));
        END;
    """)
    for table, column in (("messages", "text"), ("conversations", "title")):
        rows = database.execute(f"SELECT key, {column} FROM {table}")
        apart = [(found, key) for key, text in rows if (found := words(text)) is not None]
        database.conn.executemany(f"UPDATE {table} SET words = ? WHERE key = ?", apart)


# An answer that verifies or resumes another one names it. The names were values of the statistics before. They are no
# foreign keys: an import may leave out what they name, and the bin may remove it.


@migration
def m007_relations(database: sqlite_utils.Database) -> None:
    database.executescript("""
        ALTER TABLE messages ADD COLUMN verifies TEXT;
        ALTER TABLE messages ADD COLUMN resumes TEXT;
        DROP TRIGGER messages_finish_once;

        UPDATE messages
        SET verifies = json_extract(stats, '$.verifies'), stats = json_remove(stats, '$.verifies')
        WHERE CASE WHEN json_valid(stats) THEN json_type(stats, '$.verifies') END = 'text';
        UPDATE messages
        SET resumes = json_extract(stats, '$.resumes'), stats = json_remove(stats, '$.resumes')
        WHERE CASE WHEN json_valid(stats) THEN json_type(stats, '$.resumes') END = 'text';

        CREATE TRIGGER messages_finish_once
        BEFORE UPDATE OF text, status, tokens, provenance, stats, owner, verifies, resumes ON messages
        WHEN old.owner IS NULL BEGIN
            SELECT RAISE(ABORT, 'a finished message never changes');
        END;
    """)


# JSON, with the fields of `storage.choices.Choices`.


@migration
def m008_choices(database: sqlite_utils.Database) -> None:
    database.executescript("ALTER TABLE conversations ADD COLUMN choices TEXT NOT NULL DEFAULT '{}'")


# Attachments of a question, and a model's thoughts before its answer. The attachments of a queued prompt move to its
# question when it is sent, and back if that is deferred. They change in no other way.


@migration
def m009_attachments(database: sqlite_utils.Database) -> None:
    database.executescript("""
        CREATE TABLE attachments (
            key INTEGER PRIMARY KEY,
            message_id TEXT REFERENCES messages (id) ON DELETE CASCADE,
            queue_id TEXT REFERENCES queue (id) ON DELETE CASCADE,
            place INTEGER NOT NULL CHECK (place >= 0),
            name TEXT NOT NULL,
            media_type TEXT NOT NULL,
            data BLOB NOT NULL,
            UNIQUE (message_id, place),
            UNIQUE (queue_id, place),
            CHECK ((message_id IS NULL) != (queue_id IS NULL))
        );
        CREATE TRIGGER attachments_never_change
        BEFORE UPDATE OF key, place, name, media_type, data ON attachments BEGIN
            SELECT RAISE(ABORT, 'an attachment never changes');
        END;
        CREATE TRIGGER attachments_stay_with_their_message
        BEFORE UPDATE OF message_id ON attachments
        WHEN old.message_id IS NOT NULL AND new.message_id IS NOT NULL BEGIN
            SELECT RAISE(ABORT, 'an attachment stays with its message');
        END;

        ALTER TABLE messages ADD COLUMN reasoning TEXT NOT NULL DEFAULT '';
        DROP TRIGGER messages_finish_once;
        CREATE TRIGGER messages_finish_once
        BEFORE UPDATE OF text, status, tokens, provenance, stats, owner, verifies, resumes, reasoning ON messages
        WHEN old.owner IS NULL BEGIN
            SELECT RAISE(ABORT, 'a finished message never changes');
        END;
    """)


# How an answer was drafted (`storage/replays.py`). A round is two little-endian uint32.


@migration
def m010_replays(database: sqlite_utils.Database) -> None:
    database.executescript("""
        CREATE TABLE replays (
            message_id TEXT PRIMARY KEY REFERENCES messages (id) ON DELETE CASCADE,
            digest BLOB NOT NULL,
            prompt INTEGER NOT NULL CHECK (prompt > 0),
            rounds BLOB NOT NULL CHECK (length(rounds) % 8 = 0)
        );
        CREATE INDEX replays_by_digest ON replays (digest);
    """)


# What the target might have said in an answer (`drafter/learning/distributions.py`). NULL: no longer known.


@migration
def m011_distributions(database: sqlite_utils.Database) -> None:
    database.executescript("ALTER TABLE replays ADD COLUMN distributions BLOB;")


# The order in which conversations were written to. Their times do not give it if a clock was wrong for a while.


@migration
def m012_written(database: sqlite_utils.Database) -> None:
    database.executescript("""
        ALTER TABLE conversations ADD COLUMN written INTEGER NOT NULL DEFAULT 0;
        UPDATE conversations SET written = coalesce(
            CAST(round((julianday(updated) - 2440587.5) * 86400000) AS INTEGER), 0
        );
        CREATE INDEX conversations_by_written ON conversations (written);
    """)


# Tool calls of answers (`storage/calls.py`).


@migration
def m013_calls(database: sqlite_utils.Database) -> None:
    database.executescript("""
        CREATE TABLE calls (
            key INTEGER PRIMARY KEY,
            message_id TEXT NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
            place INTEGER NOT NULL CHECK (place >= 0),
            turn INTEGER NOT NULL CHECK (turn >= 0),
            at INTEGER NOT NULL CHECK (at >= 0),
            call_id TEXT NOT NULL,
            server TEXT NOT NULL,
            tool TEXT NOT NULL,
            arguments TEXT NOT NULL,
            state TEXT NOT NULL CHECK (state IN ('asked', 'running', 'done', 'failed', 'refused', 'unknown')),
            result TEXT NOT NULL DEFAULT '',
            asked TEXT NOT NULL DEFAULT '',
            ended TEXT NOT NULL DEFAULT '',
            UNIQUE (message_id, place)
        );
        CREATE TRIGGER calls_end_once
        BEFORE UPDATE ON calls WHEN old.state IN ('done', 'failed', 'refused') BEGIN
            SELECT RAISE(ABORT, 'a tool call that has ended never changes');
        END;
    """)


# A summary stands for all messages above it in later prompts (`storage/summaries.py`): a question that asks for it, and
# its answer, which are on no shown branch.


@migration
def m014_summaries(database: sqlite_utils.Database) -> None:
    database.executescript("""
        ALTER TABLE messages ADD COLUMN summary INTEGER NOT NULL DEFAULT 0 CHECK (summary IN (0, 1));
        CREATE INDEX messages_by_summary ON messages (conversation_id) WHERE summary;
    """)
