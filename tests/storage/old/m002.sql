-- Conversations and search, as version 0.1.0 kept them before the next migration; a crash left one answer unfinished.
BEGIN TRANSACTION;
CREATE TABLE "_sqlite_migrations" (
   "id" INTEGER PRIMARY KEY,
   "migration_set" TEXT,
   "name" TEXT,
   "applied_at" TEXT
);
INSERT INTO "_sqlite_migrations" VALUES(1,'outrider','m001_conversations','2026-11-22 06:43:37.014180+00:00');
INSERT INTO "_sqlite_migrations" VALUES(2,'outrider','m002_search','2026-11-22 06:43:37.016695+00:00');
CREATE TABLE conversations (
            key INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            title TEXT NOT NULL,
            tip_id TEXT,
            created TEXT NOT NULL,
            updated TEXT NOT NULL,
            FOREIGN KEY (id, tip_id) REFERENCES messages (conversation_id, id)
        );
INSERT INTO "conversations" VALUES(1,'7b55e131813c53c1','how do I unpack a tarball?','5421d1b4d66b10fc','2026-11-22T06:43:37.018+00:00','2026-11-22T06:43:37.021+00:00');
INSERT INTO "conversations" VALUES(2,'56f20c770284fed4','Ünïcode title – with dashes','071c6b3ae7aea445','2026-11-22T06:43:37.021+00:00','2026-11-22T06:43:37.022+00:00');
INSERT INTO "conversations" VALUES(3,'51d123a74e60015f','renamed',NULL,'2026-11-22T06:43:37.022+00:00','2026-11-22T06:43:37.022+00:00');
INSERT INTO "conversations" VALUES(4,'511bca9b85a68fa2','cut off','82592c1ec873786e','2026-11-22T06:43:37.022+00:00','2026-11-22T06:43:37.022+00:00');
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
INSERT INTO "messages" VALUES(1,'88199a6363bec7f5','7b55e131813c53c1',NULL,'user','how do I unpack a tarball?','done',X'',X'','{}',NULL,'2026-11-22T06:43:37.018+00:00');
INSERT INTO "messages" VALUES(2,'a34df51a38a95bf1','7b55e131813c53c1','88199a6363bec7f5','assistant','Use `tar`:

```sh
tar -xzf archive.tar.gz
```
','done',X'050000000600000070110100',X'010100','{"rounds":3,"tau":2.5,"rtt_ms":null,"line":"good"}',NULL,'2026-11-22T06:43:37.019+00:00');
INSERT INTO "messages" VALUES(3,'eeab87b62d11d86e','7b55e131813c53c1','88199a6363bec7f5','assistant','bsdtar xf naïve_café_🦀.tar','stopped',X'09000000',X'00','{"rounds":0}',NULL,'2026-11-22T06:43:37.020+00:00');
INSERT INTO "messages" VALUES(4,'bbb23f66ebe49f4a','7b55e131813c53c1','a34df51a38a95bf1','user','and "quoted" ''words''; -- too?','done',X'',X'','{}',NULL,'2026-11-22T06:43:37.020+00:00');
INSERT INTO "messages" VALUES(5,'5421d1b4d66b10fc','7b55e131813c53c1','bbb23f66ebe49f4a','assistant','','failed',X'',X'','{}',NULL,'2026-11-22T06:43:37.021+00:00');
INSERT INTO "messages" VALUES(6,'efa19231df87bbf5','56f20c770284fed4',NULL,'user','list files','done',X'',X'','{}',NULL,'2026-11-22T06:43:37.021+00:00');
INSERT INTO "messages" VALUES(7,'071c6b3ae7aea445','56f20c770284fed4','efa19231df87bbf5','assistant','ls -la shows hidden ones, too','done',X'6400000065000000660000006700000068000000690000006A0000006B0000006C0000006D0000006E0000006F000000700000007100000072000000730000007400000075000000760000007700000078000000790000007A0000007B0000007C0000007D0000007E0000007F000000800000008100000082000000830000008400000085000000860000008700000088000000890000008A0000008B000000',X'01010101010101010101010101010101010101010000000000000000000000000000000000000000','{"rounds":4,"verified":20}',NULL,'2026-11-22T06:43:37.021+00:00');
INSERT INTO "messages" VALUES(8,'82c9732f974ca5d3','511bca9b85a68fa2',NULL,'user','count to three','done',X'',X'','{}',NULL,'2026-11-22T06:43:37.022+00:00');
INSERT INTO "messages" VALUES(9,'82592c1ec873786e','511bca9b85a68fa2','82c9732f974ca5d3','assistant','','streaming',X'',X'','{}','097ea81aebf5346e','2026-11-22T06:43:37.022+00:00');
CREATE TABLE partials (
            message_id TEXT PRIMARY KEY REFERENCES messages (id) ON DELETE CASCADE,
            text TEXT NOT NULL,
            tokens BLOB NOT NULL,
            provenance BLOB NOT NULL,
            CHECK (length(tokens) = 4 * length(provenance))
        );
INSERT INTO "partials" VALUES('82592c1ec873786e','one two',X'0100000002000000',X'0100');
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
COMMIT;
