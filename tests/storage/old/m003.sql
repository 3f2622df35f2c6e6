-- Conversations, search and memory, as version 0.1.0 kept them before the next migration; a crash left one answer unfinished.
BEGIN TRANSACTION;
CREATE TABLE "_sqlite_migrations" (
   "id" INTEGER PRIMARY KEY,
   "migration_set" TEXT,
   "name" TEXT,
   "applied_at" TEXT
);
INSERT INTO "_sqlite_migrations" VALUES(1,'outrider','m001_conversations','2026-11-22 06:43:37.478607+00:00');
INSERT INTO "_sqlite_migrations" VALUES(2,'outrider','m002_search','2026-11-22 06:43:37.480842+00:00');
INSERT INTO "_sqlite_migrations" VALUES(3,'outrider','m003_memory','2026-11-22 06:43:37.486318+00:00');
CREATE TABLE conversations (
            key INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            title TEXT NOT NULL,
            tip_id TEXT,
            created TEXT NOT NULL,
            updated TEXT NOT NULL,
            FOREIGN KEY (id, tip_id) REFERENCES messages (conversation_id, id)
        );
INSERT INTO "conversations" VALUES(1,'12153c4c33392b8b','how do I unpack a tarball?','7091f3e616379242','2026-11-22T06:43:37.487+00:00','2026-11-22T06:43:37.490+00:00');
INSERT INTO "conversations" VALUES(2,'095e3226fd67fa77','Ünïcode title – with dashes','9bacef5aad4b3d98','2026-11-22T06:43:37.490+00:00','2026-11-22T06:43:37.495+00:00');
INSERT INTO "conversations" VALUES(3,'513c9a4278476c16','renamed',NULL,'2026-11-22T06:43:37.495+00:00','2026-11-22T06:43:37.495+00:00');
INSERT INTO "conversations" VALUES(4,'4f8650717131cc09','cut off','11ad30fd8ffc7004','2026-11-22T06:43:37.495+00:00','2026-11-22T06:43:37.496+00:00');
CREATE TABLE memories (
            key INTEGER PRIMARY KEY,
            conversation_id TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
            digest BLOB NOT NULL,
            bytes INTEGER NOT NULL DEFAULT 0,
            used INTEGER NOT NULL,
            UNIQUE (conversation_id, digest)
        );
INSERT INTO "memories" VALUES(1,'12153c4c33392b8b',X'01010101010101010101010101010101',60,2);
INSERT INTO "memories" VALUES(2,'095e3226fd67fa77',X'02020202020202020202020202020202',6,3);
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
            created TEXT NOT NULL,
            UNIQUE (conversation_id, id),
            FOREIGN KEY (conversation_id, parent_id) REFERENCES messages (conversation_id, id),
            CHECK (length(tokens) = 4 * length(provenance)),
            CHECK ((owner IS NULL) = (status IN ('done', 'stopped', 'failed')))
        );
INSERT INTO "messages" VALUES(1,'090c945b2e669f13','12153c4c33392b8b',NULL,'user','how do I unpack a tarball?','done',X'',X'','{}',NULL,'2026-11-22T06:43:37.487+00:00');
INSERT INTO "messages" VALUES(2,'861041f1ff4c45a8','12153c4c33392b8b','090c945b2e669f13','assistant','Use `tar`:

```sh
tar -xzf archive.tar.gz
```
','done',X'050000000600000070110100',X'010100','{"rounds":3,"tau":2.5,"rtt_ms":null,"line":"good"}',NULL,'2026-11-22T06:43:37.488+00:00');
INSERT INTO "messages" VALUES(3,'a22039f475f7671b','12153c4c33392b8b','090c945b2e669f13','assistant','bsdtar xf naïve_café_🦀.tar','stopped',X'09000000',X'00','{"rounds":0}',NULL,'2026-11-22T06:43:37.489+00:00');
INSERT INTO "messages" VALUES(4,'d526eeb1790309bb','12153c4c33392b8b','861041f1ff4c45a8','user','and "quoted" ''words''; -- too?','done',X'',X'','{}',NULL,'2026-11-22T06:43:37.490+00:00');
INSERT INTO "messages" VALUES(5,'7091f3e616379242','12153c4c33392b8b','d526eeb1790309bb','assistant','','failed',X'',X'','{}',NULL,'2026-11-22T06:43:37.490+00:00');
INSERT INTO "messages" VALUES(6,'566f8fc814d13445','095e3226fd67fa77',NULL,'user','list files','done',X'',X'','{}',NULL,'2026-11-22T06:43:37.490+00:00');
INSERT INTO "messages" VALUES(7,'9bacef5aad4b3d98','095e3226fd67fa77','566f8fc814d13445','assistant','ls -la shows hidden ones, too','done',X'6400000065000000660000006700000068000000690000006A0000006B0000006C0000006D0000006E0000006F000000700000007100000072000000730000007400000075000000760000007700000078000000790000007A0000007B0000007C0000007D0000007E0000007F000000800000008100000082000000830000008400000085000000860000008700000088000000890000008A0000008B000000',X'01010101010101010101010101010101010101010000000000000000000000000000000000000000','{"rounds":4,"verified":20}',NULL,'2026-11-22T06:43:37.490+00:00');
INSERT INTO "messages" VALUES(8,'9d5da2373e2abf91','4f8650717131cc09',NULL,'user','count to three','done',X'',X'','{}',NULL,'2026-11-22T06:43:37.496+00:00');
INSERT INTO "messages" VALUES(9,'11ad30fd8ffc7004','4f8650717131cc09','9d5da2373e2abf91','assistant','','streaming',X'',X'','{}','3b4f27cc8d651e4e','2026-11-22T06:43:37.496+00:00');
CREATE TABLE partials (
            message_id TEXT PRIMARY KEY REFERENCES messages (id) ON DELETE CASCADE,
            text TEXT NOT NULL,
            tokens BLOB NOT NULL,
            provenance BLOB NOT NULL,
            CHECK (length(tokens) = 4 * length(provenance))
        );
INSERT INTO "partials" VALUES('11ad30fd8ffc7004','one two',X'0100000002000000',X'0100');
CREATE VIRTUAL TABLE messages_fts USING fts5 (
            text, content='messages', content_rowid='key',
            tokenize='porter unicode61 remove_diacritics 2', prefix='2 3'
        );
INSERT INTO messages_fts (messages_fts) VALUES ('rebuild');
CREATE UNIQUE INDEX "idx__sqlite_migrations_migration_set_name"
    ON "_sqlite_migrations" ("migration_set", "name");
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
CREATE UNIQUE INDEX memory_chunks_by_start ON memory_chunks (memory_key, start, count);
CREATE TRIGGER memory_chunks_insert AFTER INSERT ON memory_chunks BEGIN
            UPDATE memories SET bytes = bytes + length(new.data) WHERE key = new.memory_key;
        END;
CREATE TRIGGER memory_chunks_delete AFTER DELETE ON memory_chunks BEGIN
            UPDATE memories SET bytes = bytes - length(old.data) WHERE key = old.memory_key;
        END;
COMMIT;
