-- Conversations, search, memory, the queue, the bin, titles, words, relations, choices, attachments, replays and distributions, as version 0.1.0 kept them before the next migration; a crash left one answer unfinished.
BEGIN TRANSACTION;
CREATE TABLE "_sqlite_migrations" (
   "id" INTEGER PRIMARY KEY,
   "migration_set" TEXT,
   "name" TEXT,
   "applied_at" TEXT
);
INSERT INTO "_sqlite_migrations" VALUES(1,'outrider','m001_conversations','2026-11-22 06:43:38.070354+00:00');
INSERT INTO "_sqlite_migrations" VALUES(2,'outrider','m002_search','2026-11-22 06:43:38.076376+00:00');
INSERT INTO "_sqlite_migrations" VALUES(3,'outrider','m003_memory','2026-11-22 06:43:38.078371+00:00');
INSERT INTO "_sqlite_migrations" VALUES(4,'outrider','m004_queue','2026-11-22 06:43:38.085149+00:00');
INSERT INTO "_sqlite_migrations" VALUES(5,'outrider','m005_bin_and_titles','2026-11-22 09:18:00.768927+00:00');
INSERT INTO "_sqlite_migrations" VALUES(6,'outrider','m006_words','2026-11-22 13:05:11.204517+00:00');
INSERT INTO "_sqlite_migrations" VALUES(7,'outrider','m007_relations','2026-11-23 04:17:41.156753+00:00');
INSERT INTO "_sqlite_migrations" VALUES(8,'outrider','m008_choices','2026-11-23 04:27:40.869479+00:00');
INSERT INTO "_sqlite_migrations" VALUES(9,'outrider','m009_attachments','2026-11-23 10:00:00.000000+00:00');
INSERT INTO "_sqlite_migrations" VALUES(10,'outrider','m010_replays','2026-11-24 10:00:00.000000+00:00');
INSERT INTO "_sqlite_migrations" VALUES(11,'outrider','m011_distributions','2026-11-25 10:00:00.000000+00:00');
CREATE TABLE conversations (
            key INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            title TEXT NOT NULL,
            tip_id TEXT,
            created TEXT NOT NULL,
            updated TEXT NOT NULL, pinned INTEGER NOT NULL DEFAULT 0 CHECK (pinned IN (0, 1)), deleted TEXT, words TEXT, choices TEXT NOT NULL DEFAULT '{}',
            FOREIGN KEY (id, tip_id) REFERENCES messages (conversation_id, id)
        );
INSERT INTO "conversations" VALUES(1,'e01a1167fa787eb5','how do I unpack a tarball?','96442784a9580551','2026-11-22T06:43:38.088+00:00','2026-11-22T06:43:38.096+00:00',0,NULL,NULL,'{}');
INSERT INTO "conversations" VALUES(2,'6510e2d8755f00d5','Ünïcode title – with dashes','15d992d1bd14044b','2026-11-22T06:43:38.090+00:00','2026-11-22T06:43:38.097+00:00',0,NULL,NULL,'{}');
INSERT INTO "conversations" VALUES(3,'cd3fc2b49e7b3b25','renamed',NULL,'2026-11-22T06:43:38.095+00:00','2026-11-22T06:43:38.095+00:00',0,NULL,NULL,'{"model":"qwen3:8b","system":"Answer in one line.","temperature":0.2}');
INSERT INTO "conversations" VALUES(4,'32764488ece0b7f8','cut off','6ceaecb74d72529d','2026-11-22T06:43:38.095+00:00','2026-11-22T06:43:38.097+00:00',0,NULL,NULL,'{}');
INSERT INTO "conversations" VALUES(5,'780711e087ad7edf','queued only',NULL,'2026-11-22T06:43:38.097+00:00','2026-11-22T06:43:38.097+00:00',0,NULL,NULL,'{}');
CREATE TABLE memories (
            key INTEGER PRIMARY KEY,
            conversation_id TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
            digest BLOB NOT NULL,
            bytes INTEGER NOT NULL DEFAULT 0,
            used INTEGER NOT NULL,
            UNIQUE (conversation_id, digest)
        );
INSERT INTO "memories" VALUES(1,'e01a1167fa787eb5',X'01010101010101010101010101010101',60,2);
INSERT INTO "memories" VALUES(2,'6510e2d8755f00d5',X'02020202020202020202020202020202',6,3);
CREATE TABLE memory_chunks (
            key INTEGER PRIMARY KEY,
            memory_key INTEGER NOT NULL REFERENCES memories (key) ON DELETE CASCADE,
            start INTEGER NOT NULL CHECK (start >= 0),
            count INTEGER NOT NULL CHECK (count > 0),
            data BLOB NOT NULL
        );
INSERT INTO "memory_chunks" VALUES(1,1,0,3,X'000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F2021222324252627');
INSERT INTO "memory_chunks" VALUES(2,1,3,2,X'000102030405060708090A0B0C0D0E0F10111213');
INSERT INTO "memory_chunks" VALUES(3,2,0,5,X'6D656D6F7279');
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
            created TEXT NOT NULL, deleted TEXT, words TEXT, verifies TEXT, resumes TEXT, reasoning TEXT NOT NULL DEFAULT '',
            UNIQUE (conversation_id, id),
            FOREIGN KEY (conversation_id, parent_id) REFERENCES messages (conversation_id, id),
            CHECK (length(tokens) = 4 * length(provenance)),
            CHECK ((owner IS NULL) = (status IN ('done', 'stopped', 'failed')))
        );
INSERT INTO "messages" VALUES(1,'995ae0d94f98b611','e01a1167fa787eb5',NULL,'user','how do I unpack a tarball?','done',X'',X'','{}',NULL,'2026-11-22T06:43:38.088+00:00',NULL,NULL,NULL,NULL,'');
INSERT INTO "messages" VALUES(2,'56a71cdc30069cb5','e01a1167fa787eb5','995ae0d94f98b611','assistant','Use `tar`:

```sh
tar -xzf archive.tar.gz
```
','done',X'050000000600000070110100',X'010100','{"rounds":3,"tau":2.5,"rtt_ms":null,"line":"good"}',NULL,'2026-11-22T06:43:38.088+00:00',NULL,NULL,NULL,NULL,'The person wants tar.');
INSERT INTO "messages" VALUES(3,'5788851964c858f3','e01a1167fa787eb5','995ae0d94f98b611','assistant','bsdtar xf naïve_café_🦀.tar','stopped',X'09000000',X'00','{"rounds":0}',NULL,'2026-11-22T06:43:38.089+00:00',NULL,NULL,NULL,NULL,'');
INSERT INTO "messages" VALUES(4,'b71764813cd17069','e01a1167fa787eb5','56a71cdc30069cb5','user','and "quoted" ''words''; -- too?','done',X'',X'','{}',NULL,'2026-11-22T06:43:38.090+00:00',NULL,NULL,NULL,NULL,'');
INSERT INTO "messages" VALUES(5,'96442784a9580551','e01a1167fa787eb5','b71764813cd17069','assistant','','failed',X'',X'','{}',NULL,'2026-11-22T06:43:38.090+00:00',NULL,NULL,NULL,NULL,'');
INSERT INTO "messages" VALUES(6,'fff2977afe27f39a','6510e2d8755f00d5',NULL,'user','list files','done',X'',X'','{}',NULL,'2026-11-22T06:43:38.090+00:00',NULL,NULL,NULL,NULL,'');
INSERT INTO "messages" VALUES(7,'15d992d1bd14044b','6510e2d8755f00d5','fff2977afe27f39a','assistant','ls -la shows hidden ones, too','done',X'6400000065000000660000006700000068000000690000006A0000006B0000006C0000006D0000006E0000006F000000700000007100000072000000730000007400000075000000760000007700000078000000790000007A0000007B0000007C0000007D0000007E0000007F000000800000008100000082000000830000008400000085000000860000008700000088000000890000008A0000008B000000',X'01010101010101010101010101010101010101010000000000000000000000000000000000000000','{"rounds":4,"verified":20}',NULL,'2026-11-22T06:43:38.091+00:00',NULL,NULL,NULL,NULL,'');
INSERT INTO "messages" VALUES(8,'b2612d1d8c1c46fb','32764488ece0b7f8',NULL,'user','count to three','done',X'',X'','{}',NULL,'2026-11-22T06:43:38.095+00:00',NULL,NULL,NULL,NULL,'');
INSERT INTO "messages" VALUES(9,'6ceaecb74d72529d','32764488ece0b7f8','b2612d1d8c1c46fb','assistant','','streaming',X'',X'','{}','4f5fafeb9a605dc3','2026-11-22T06:43:38.096+00:00',NULL,NULL,NULL,NULL,'');
INSERT INTO "messages" VALUES(10,'155fcb8b3419cdc6','6510e2d8755f00d5','fff2977afe27f39a','assistant','','pending',X'',X'','{}','4f5fafeb9a605dc3','2026-11-22T06:43:38.097+00:00',NULL,NULL,'15d992d1bd14044b',NULL,'');
INSERT INTO "messages" VALUES(11,'3d1c0be7a5f94e26','6510e2d8755f00d5','fff2977afe27f39a','assistant','ls','stopped',X'64000000',X'01','{"temperature":0.0,"rounds":1,"tau":null}',NULL,'2026-11-22T06:43:38.098+00:00',NULL,NULL,'15d992d1bd14044b',NULL,'');
INSERT INTO "messages" VALUES(12,'8a60f2c4d7b91e35','e01a1167fa787eb5','995ae0d94f98b611','assistant','bsdtar 天气','failed',X'09000000',X'00','{"temperature":0.7,"seed":7}',NULL,'2026-11-22T06:43:38.099+00:00',NULL,'bsdtar 天​气',NULL,'5788851964c858f3','');
CREATE TABLE partials (
            message_id TEXT PRIMARY KEY REFERENCES messages (id) ON DELETE CASCADE,
            text TEXT NOT NULL,
            tokens BLOB NOT NULL,
            provenance BLOB NOT NULL,
            CHECK (length(tokens) = 4 * length(provenance))
        );
INSERT INTO "partials" VALUES('6ceaecb74d72529d','one two',X'0100000002000000',X'0100');
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
INSERT INTO "queue" VALUES(1,'1c36c0e700f6766e','e01a1167fa787eb5','and a zip?',NULL,NULL,'2026-11-22T06:43:38.096+00:00');
INSERT INTO "queue" VALUES(2,'5942bd1c7357d681','6510e2d8755f00d5',NULL,'15d992d1bd14044b','155fcb8b3419cdc6','2026-11-22T06:43:38.097+00:00');
INSERT INTO "queue" VALUES(3,'8f05e191229606be','780711e087ad7edf','what is my address?',NULL,NULL,'2026-11-22T06:43:38.097+00:00');
INSERT INTO "queue" VALUES(4,'99f928b461b46dba','32764488ece0b7f8','after the cut',NULL,NULL,'2026-11-22T06:43:38.097+00:00');
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
INSERT INTO "attachments" VALUES(1,'995ae0d94f98b611',NULL,0,'naïve café.png','image/png',X'89504E470D0A1A0A');
INSERT INTO "attachments" VALUES(2,NULL,'8f05e191229606be',0,'notes.txt','text/plain',X'6F6E650A');
CREATE TABLE replays (
            message_id TEXT PRIMARY KEY REFERENCES messages (id) ON DELETE CASCADE,
            digest BLOB NOT NULL,
            prompt INTEGER NOT NULL CHECK (prompt > 0),
            rounds BLOB NOT NULL CHECK (length(rounds) % 8 = 0)
        );
INSERT INTO "replays" VALUES('56a71cdc30069cb5',X'01010101010101010101010101010101',5,X'0500000000000000');
CREATE INDEX replays_by_digest ON replays (digest);
CREATE VIEW messages_found AS SELECT key, coalesce(words, text) AS text FROM messages WHERE deleted IS NULL;
CREATE VIEW titles_found AS
            SELECT key, coalesce(words, title) AS title FROM conversations WHERE deleted IS NULL;
CREATE VIRTUAL TABLE messages_fts USING fts5 (
            text, content='messages_found', content_rowid='key',
            tokenize='porter unicode61 remove_diacritics 2', prefix='1 2 3 4'
        );
INSERT INTO messages_fts (messages_fts) VALUES ('rebuild');
CREATE VIRTUAL TABLE titles_fts USING fts5 (
            title, content='titles_found', content_rowid='key',
            tokenize='porter unicode61 remove_diacritics 2', prefix='1 2 3 4'
        );
INSERT INTO titles_fts (titles_fts) VALUES ('rebuild');
CREATE UNIQUE INDEX "idx__sqlite_migrations_migration_set_name"
    ON "_sqlite_migrations" ("migration_set", "name");
CREATE INDEX messages_by_parent ON messages (conversation_id, parent_id);
CREATE INDEX messages_by_owner ON messages (owner) WHERE owner IS NOT NULL;
CREATE UNIQUE INDEX memory_chunks_by_start ON memory_chunks (memory_key, start, count);
CREATE INDEX queue_by_conversation ON queue (conversation_id);
CREATE INDEX queue_by_answer ON queue (answer_id);
CREATE INDEX messages_by_deleted ON messages (deleted) WHERE deleted IS NOT NULL;
CREATE TRIGGER attachments_never_change
        BEFORE UPDATE OF key, place, name, media_type, data ON attachments BEGIN
            SELECT RAISE(ABORT, 'an attachment never changes');
        END;
CREATE TRIGGER attachments_stay_with_their_message
        BEFORE UPDATE OF message_id ON attachments
        WHEN old.message_id IS NOT NULL AND new.message_id IS NOT NULL BEGIN
            SELECT RAISE(ABORT, 'an attachment stays with its message');
        END;
CREATE TRIGGER messages_keep_their_place
        BEFORE UPDATE OF key, id, conversation_id, parent_id, role, created ON messages BEGIN
            SELECT RAISE(ABORT, 'a message never moves');
        END;
CREATE TRIGGER memory_chunks_insert AFTER INSERT ON memory_chunks BEGIN
            UPDATE memories SET bytes = bytes + length(new.data) WHERE key = new.memory_key;
        END;
CREATE TRIGGER memory_chunks_delete AFTER DELETE ON memory_chunks BEGIN
            UPDATE memories SET bytes = bytes - length(old.data) WHERE key = old.memory_key;
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
CREATE TRIGGER messages_finish_once
        BEFORE UPDATE OF text, status, tokens, provenance, stats, owner, verifies, resumes, reasoning ON messages
        WHEN old.owner IS NULL BEGIN
            SELECT RAISE(ABORT, 'a finished message never changes');
        END;
ALTER TABLE replays ADD COLUMN distributions BLOB;
COMMIT;
