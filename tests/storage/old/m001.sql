-- Conversations alone, as version 0.1.0 kept them before the next migration; a crash left one answer unfinished.
BEGIN TRANSACTION;
CREATE TABLE "_sqlite_migrations" (
   "id" INTEGER PRIMARY KEY,
   "migration_set" TEXT,
   "name" TEXT,
   "applied_at" TEXT
);
INSERT INTO "_sqlite_migrations" VALUES(1,'outrider','m001_conversations','2026-11-22 06:43:36.712006+00:00');
CREATE TABLE conversations (
            key INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            title TEXT NOT NULL,
            tip_id TEXT,
            created TEXT NOT NULL,
            updated TEXT NOT NULL,
            FOREIGN KEY (id, tip_id) REFERENCES messages (conversation_id, id)
        );
INSERT INTO "conversations" VALUES(1,'924acb29001ecbf6','how do I unpack a tarball?','bbabb164f2d3e3fb','2026-11-22T06:43:36.713+00:00','2026-11-22T06:43:36.715+00:00');
INSERT INTO "conversations" VALUES(2,'5581c7b1a36b8e1c','Ünïcode title – with dashes','6a693c4ac1bee7af','2026-11-22T06:43:36.715+00:00','2026-11-22T06:43:36.716+00:00');
INSERT INTO "conversations" VALUES(3,'11f4d18587ff14b4','renamed',NULL,'2026-11-22T06:43:36.716+00:00','2026-11-22T06:43:36.716+00:00');
INSERT INTO "conversations" VALUES(4,'238e5f6ec1e65999','cut off','9a6c0352f9a3716e','2026-11-22T06:43:36.716+00:00','2026-11-22T06:43:36.716+00:00');
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
INSERT INTO "messages" VALUES(1,'950c1bbf5d90f655','924acb29001ecbf6',NULL,'user','how do I unpack a tarball?','done',X'',X'','{}',NULL,'2026-11-22T06:43:36.713+00:00');
INSERT INTO "messages" VALUES(2,'173538384a8cacaa','924acb29001ecbf6','950c1bbf5d90f655','assistant','Use `tar`:

```sh
tar -xzf archive.tar.gz
```
','done',X'050000000600000070110100',X'010100','{"rounds":3,"tau":2.5,"rtt_ms":null,"line":"good"}',NULL,'2026-11-22T06:43:36.714+00:00');
INSERT INTO "messages" VALUES(3,'9aa6ffb92275ec29','924acb29001ecbf6','950c1bbf5d90f655','assistant','bsdtar xf naïve_café_🦀.tar','stopped',X'09000000',X'00','{"rounds":0}',NULL,'2026-11-22T06:43:36.714+00:00');
INSERT INTO "messages" VALUES(4,'ff274bdbefaf855c','924acb29001ecbf6','173538384a8cacaa','user','and "quoted" ''words''; -- too?','done',X'',X'','{}',NULL,'2026-11-22T06:43:36.715+00:00');
INSERT INTO "messages" VALUES(5,'bbabb164f2d3e3fb','924acb29001ecbf6','ff274bdbefaf855c','assistant','','failed',X'',X'','{}',NULL,'2026-11-22T06:43:36.715+00:00');
INSERT INTO "messages" VALUES(6,'ed922c6bbcc9aadc','5581c7b1a36b8e1c',NULL,'user','list files','done',X'',X'','{}',NULL,'2026-11-22T06:43:36.715+00:00');
INSERT INTO "messages" VALUES(7,'6a693c4ac1bee7af','5581c7b1a36b8e1c','ed922c6bbcc9aadc','assistant','ls -la shows hidden ones, too','done',X'6400000065000000660000006700000068000000690000006A0000006B0000006C0000006D0000006E0000006F000000700000007100000072000000730000007400000075000000760000007700000078000000790000007A0000007B0000007C0000007D0000007E0000007F000000800000008100000082000000830000008400000085000000860000008700000088000000890000008A0000008B000000',X'01010101010101010101010101010101010101010000000000000000000000000000000000000000','{"rounds":4,"verified":20}',NULL,'2026-11-22T06:43:36.715+00:00');
INSERT INTO "messages" VALUES(8,'7478e5b3d2521357','238e5f6ec1e65999',NULL,'user','count to three','done',X'',X'','{}',NULL,'2026-11-22T06:43:36.716+00:00');
INSERT INTO "messages" VALUES(9,'9a6c0352f9a3716e','238e5f6ec1e65999','7478e5b3d2521357','assistant','','streaming',X'',X'','{}','042e6a85b9523235','2026-11-22T06:43:36.716+00:00');
CREATE TABLE partials (
            message_id TEXT PRIMARY KEY REFERENCES messages (id) ON DELETE CASCADE,
            text TEXT NOT NULL,
            tokens BLOB NOT NULL,
            provenance BLOB NOT NULL,
            CHECK (length(tokens) = 4 * length(provenance))
        );
INSERT INTO "partials" VALUES('9a6c0352f9a3716e','one two',X'0100000002000000',X'0100');
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
COMMIT;
