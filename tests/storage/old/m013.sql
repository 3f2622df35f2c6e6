-- Conversations, search, memory, the queue, the bin, titles, words, relations, choices, attachments, replays, distributions, the order of writing and a tool call, as version 0.1.0 kept them before the next migration; a crash left one answer unfinished.
PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE IF NOT EXISTS "_sqlite_migrations" (
   "id" INTEGER PRIMARY KEY,
   "migration_set" TEXT,
   "name" TEXT,
   "applied_at" TEXT
);
INSERT INTO _sqlite_migrations VALUES(1,'outrider','m001_conversations','2026-11-22 06:43:38.070354+00:00');
INSERT INTO _sqlite_migrations VALUES(2,'outrider','m002_search','2026-11-22 06:43:38.076376+00:00');
INSERT INTO _sqlite_migrations VALUES(3,'outrider','m003_memory','2026-11-22 06:43:38.078371+00:00');
INSERT INTO _sqlite_migrations VALUES(4,'outrider','m004_queue','2026-11-22 06:43:38.085149+00:00');
INSERT INTO _sqlite_migrations VALUES(5,'outrider','m005_bin_and_titles','2026-11-22 09:18:00.768927+00:00');
INSERT INTO _sqlite_migrations VALUES(6,'outrider','m006_words','2026-11-22 13:05:11.204517+00:00');
INSERT INTO _sqlite_migrations VALUES(7,'outrider','m007_relations','2026-11-23 04:17:41.156753+00:00');
INSERT INTO _sqlite_migrations VALUES(8,'outrider','m008_choices','2026-11-23 04:27:40.869479+00:00');
INSERT INTO _sqlite_migrations VALUES(9,'outrider','m009_attachments','2026-11-23 10:00:00.000000+00:00');
INSERT INTO _sqlite_migrations VALUES(10,'outrider','m010_replays','2026-11-24 10:00:00.000000+00:00');
INSERT INTO _sqlite_migrations VALUES(11,'outrider','m011_distributions','2026-11-25 10:00:00.000000+00:00');
INSERT INTO _sqlite_migrations VALUES(12,'outrider','m012_written','2026-11-26 10:00:00.000000+00:00');
INSERT INTO _sqlite_migrations VALUES(13,'outrider','m013_calls','2026-11-30 01:47:27.323285+00:00');
CREATE TABLE conversations (
            key INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            title TEXT NOT NULL,
            tip_id TEXT,
            created TEXT NOT NULL,
            updated TEXT NOT NULL, pinned INTEGER NOT NULL DEFAULT 0 CHECK (pinned IN (0, 1)), deleted TEXT, words TEXT, choices TEXT NOT NULL DEFAULT '{}', written INTEGER NOT NULL DEFAULT 0,
            FOREIGN KEY (id, tip_id) REFERENCES messages (conversation_id, id)
        );
INSERT INTO conversations VALUES(1,'e01a1167fa787eb5','how do I unpack a tarball?','96442784a9580551','2026-11-22T06:43:38.088+00:00','2026-11-22T06:43:38.096+00:00',0,NULL,NULL,'{}',1795329818096);
INSERT INTO conversations VALUES(2,'6510e2d8755f00d5','Ünïcode title – with dashes','15d992d1bd14044b','2026-11-22T06:43:38.090+00:00','2026-11-22T06:43:38.097+00:00',0,NULL,NULL,'{}',1795329818097);
INSERT INTO conversations VALUES(3,'cd3fc2b49e7b3b25','renamed',NULL,'2026-11-22T06:43:38.095+00:00','2026-11-22T06:43:38.095+00:00',0,NULL,NULL,'{"model":"qwen3:8b","system":"Answer in one line.","temperature":0.2}',1795329818095);
INSERT INTO conversations VALUES(4,'32764488ece0b7f8','cut off','6ceaecb74d72529d','2026-11-22T06:43:38.095+00:00','2026-11-22T06:43:38.097+00:00',0,NULL,NULL,'{}',1795329818097);
INSERT INTO conversations VALUES(5,'780711e087ad7edf','queued only',NULL,'2026-11-22T06:43:38.097+00:00','2026-11-22T06:43:38.097+00:00',0,NULL,NULL,'{}',1795329818097);
CREATE TABLE memories (
            key INTEGER PRIMARY KEY,
            conversation_id TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
            digest BLOB NOT NULL,
            bytes INTEGER NOT NULL DEFAULT 0,
            used INTEGER NOT NULL,
            UNIQUE (conversation_id, digest)
        );
INSERT INTO memories VALUES(1,'e01a1167fa787eb5',X'01010101010101010101010101010101',60,2);
INSERT INTO memories VALUES(2,'6510e2d8755f00d5',X'02020202020202020202020202020202',6,3);
CREATE TABLE memory_chunks (
            key INTEGER PRIMARY KEY,
            memory_key INTEGER NOT NULL REFERENCES memories (key) ON DELETE CASCADE,
            start INTEGER NOT NULL CHECK (start >= 0),
            count INTEGER NOT NULL CHECK (count > 0),
            data BLOB NOT NULL
        );
INSERT INTO memory_chunks VALUES(1,1,0,3,X'000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f2021222324252627');
INSERT INTO memory_chunks VALUES(2,1,3,2,X'000102030405060708090a0b0c0d0e0f10111213');
INSERT INTO memory_chunks VALUES(3,2,0,5,X'6d656d6f7279');
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
INSERT INTO messages VALUES(1,'995ae0d94f98b611','e01a1167fa787eb5',NULL,'user','how do I unpack a tarball?','done',X'',X'','{}',NULL,'2026-11-22T06:43:38.088+00:00',NULL,NULL,NULL,NULL,'');
INSERT INTO messages VALUES(2,'56a71cdc30069cb5','e01a1167fa787eb5','995ae0d94f98b611','assistant',replace('Use `tar`:\n\n```sh\ntar -xzf archive.tar.gz\n```\n','\n',char(10)),'done',X'050000000600000070110100',X'010100','{"rounds":3,"tau":2.5,"rtt_ms":null,"line":"good"}',NULL,'2026-11-22T06:43:38.088+00:00',NULL,NULL,NULL,NULL,'The person wants tar.');
INSERT INTO messages VALUES(3,'5788851964c858f3','e01a1167fa787eb5','995ae0d94f98b611','assistant','bsdtar xf naïve_café_🦀.tar','stopped',X'09000000',X'00','{"rounds":0}',NULL,'2026-11-22T06:43:38.089+00:00',NULL,NULL,NULL,NULL,'');
INSERT INTO messages VALUES(4,'b71764813cd17069','e01a1167fa787eb5','56a71cdc30069cb5','user','and "quoted" ''words''; -- too?','done',X'',X'','{}',NULL,'2026-11-22T06:43:38.090+00:00',NULL,NULL,NULL,NULL,'');
INSERT INTO messages VALUES(5,'96442784a9580551','e01a1167fa787eb5','b71764813cd17069','assistant','','failed',X'',X'','{}',NULL,'2026-11-22T06:43:38.090+00:00',NULL,NULL,NULL,NULL,'');
INSERT INTO messages VALUES(6,'fff2977afe27f39a','6510e2d8755f00d5',NULL,'user','list files','done',X'',X'','{}',NULL,'2026-11-22T06:43:38.090+00:00',NULL,NULL,NULL,NULL,'');
INSERT INTO messages VALUES(7,'15d992d1bd14044b','6510e2d8755f00d5','fff2977afe27f39a','assistant','ls -la shows hidden ones, too','done',X'6400000065000000660000006700000068000000690000006a0000006b0000006c0000006d0000006e0000006f000000700000007100000072000000730000007400000075000000760000007700000078000000790000007a0000007b0000007c0000007d0000007e0000007f000000800000008100000082000000830000008400000085000000860000008700000088000000890000008a0000008b000000',X'01010101010101010101010101010101010101010000000000000000000000000000000000000000','{"rounds":4,"verified":20}',NULL,'2026-11-22T06:43:38.091+00:00',NULL,NULL,NULL,NULL,'');
INSERT INTO messages VALUES(8,'b2612d1d8c1c46fb','32764488ece0b7f8',NULL,'user','count to three','done',X'',X'','{}',NULL,'2026-11-22T06:43:38.095+00:00',NULL,NULL,NULL,NULL,'');
INSERT INTO messages VALUES(9,'6ceaecb74d72529d','32764488ece0b7f8','b2612d1d8c1c46fb','assistant','','streaming',X'',X'','{}','4f5fafeb9a605dc3','2026-11-22T06:43:38.096+00:00',NULL,NULL,NULL,NULL,'');
INSERT INTO messages VALUES(10,'155fcb8b3419cdc6','6510e2d8755f00d5','fff2977afe27f39a','assistant','','pending',X'',X'','{}','4f5fafeb9a605dc3','2026-11-22T06:43:38.097+00:00',NULL,NULL,'15d992d1bd14044b',NULL,'');
INSERT INTO messages VALUES(11,'3d1c0be7a5f94e26','6510e2d8755f00d5','fff2977afe27f39a','assistant','ls','stopped',X'64000000',X'01','{"temperature":0.0,"rounds":1,"tau":null}',NULL,'2026-11-22T06:43:38.098+00:00',NULL,NULL,'15d992d1bd14044b',NULL,'');
INSERT INTO messages VALUES(12,'8a60f2c4d7b91e35','e01a1167fa787eb5','995ae0d94f98b611','assistant','bsdtar 天气','failed',X'09000000',X'00','{"temperature":0.7,"seed":7}',NULL,'2026-11-22T06:43:38.099+00:00',NULL,'bsdtar 天​气',NULL,'5788851964c858f3','');
CREATE TABLE partials (
            message_id TEXT PRIMARY KEY REFERENCES messages (id) ON DELETE CASCADE,
            text TEXT NOT NULL,
            tokens BLOB NOT NULL,
            provenance BLOB NOT NULL,
            CHECK (length(tokens) = 4 * length(provenance))
        );
INSERT INTO partials VALUES('6ceaecb74d72529d','one two',X'0100000002000000',X'0100');
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
INSERT INTO queue VALUES(1,'1c36c0e700f6766e','e01a1167fa787eb5','and a zip?',NULL,NULL,'2026-11-22T06:43:38.096+00:00');
INSERT INTO queue VALUES(2,'5942bd1c7357d681','6510e2d8755f00d5',NULL,'15d992d1bd14044b','155fcb8b3419cdc6','2026-11-22T06:43:38.097+00:00');
INSERT INTO queue VALUES(3,'8f05e191229606be','780711e087ad7edf','what is my address?',NULL,NULL,'2026-11-22T06:43:38.097+00:00');
INSERT INTO queue VALUES(4,'99f928b461b46dba','32764488ece0b7f8','after the cut',NULL,NULL,'2026-11-22T06:43:38.097+00:00');
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
INSERT INTO attachments VALUES(1,'995ae0d94f98b611',NULL,0,'naïve café.png','image/png',X'89504e470d0a1a0a');
INSERT INTO attachments VALUES(2,NULL,'8f05e191229606be',0,'notes.txt','text/plain',X'6f6e650a');
CREATE TABLE replays (
            message_id TEXT PRIMARY KEY REFERENCES messages (id) ON DELETE CASCADE,
            digest BLOB NOT NULL,
            prompt INTEGER NOT NULL CHECK (prompt > 0),
            rounds BLOB NOT NULL CHECK (length(rounds) % 8 = 0)
        , distributions BLOB);
INSERT INTO replays VALUES('56a71cdc30069cb5',X'01010101010101010101010101010101',5,X'0500000000000000',NULL);
PRAGMA writable_schema=ON;
INSERT INTO sqlite_schema(type,name,tbl_name,rootpage,sql)VALUES('table','messages_fts','messages_fts',0,'CREATE VIRTUAL TABLE messages_fts USING fts5 (
            text, content=''messages_found'', content_rowid=''key'',
            tokenize=''porter unicode61 remove_diacritics 2'', prefix=''1 2 3 4''
        )');
CREATE TABLE IF NOT EXISTS 'messages_fts_data'(id INTEGER PRIMARY KEY, block BLOB);
INSERT INTO messages_fts_data VALUES(1,X'0c27');
INSERT INTO messages_fts_data VALUES(10,X'000000000101010001010101');
INSERT INTO messages_fts_data VALUES(137438953473,X'000003a002306101020602026e6404020202057263686976020207010662736474617203020209020201046361666503020502046f756e740802020102646f010203010466696c650602030102677a020209010668696464656e07020502026f7701020201016901020401026c61070203020369737406020202017307020204020201046e61697603020401026f6e070206010471756f740402030102736802020403026f7707020401037461720206030405010207040362616c01020702046872656508020402016f08020303016f0402050302070106756e7061636b0102050201730202020104776f72640402040102786603020302027a660202060103e5a4a90c02030103e6b0940c02040104f09fa6800302060002316101020601020702020201016203020209020201016303020505020201016401020301016606020301016702020901016801020206020501016901020401016c0602020104020304020201016e03020401016f0702060101710402030101730202040502040101740102070106030405010207010205030207010403030101750102050102020101770402040101780202060102030103e5a4a90c02030103e6b0940c02040104f09fa680030206000332616e040202020172020207010262730302020902020102636103020502016f0802020102646f010203010266690602030102677a0202090102686907020502016f01020201026c6107020302016906020202017307020204020201026e6103020401026f6e070206010271750402030102736802020405020401027461010207010603040501020702016808020402016f0402050302070102030102756e0102050201730202020102776f0402040102786603020302017a020206000433616e64040202020272630202070103627364030202090202010363616603020502026f75080202010366696c060203010368696407020502026f7701020201036c697306020201036e6169030204010371756f040203010373686f070204010374617201020701060304050102070202687208020402026f6f0402050302070103756e700102050103776f720402040103787a660202060005346172636802020701046273647403020209020201046361666503020502036f756e080202010466696c6506020301046869646407020501046c69737406020201046e616976030204010471756f74040203010473686f7707020401047461726201020702036872650802040104756e70610102050104776f72640402040406070a0e09090709070b070607080909070907070d080906090b060907070808090d090906060609060d060606091809060908080908060a070607070707060706090707070a0f060c070607070609070b08070808070808080810070a0808080a0c0908090909090909090809');
CREATE TABLE IF NOT EXISTS 'messages_fts_idx'(segid, term, pgno, PRIMARY KEY(segid, term)) WITHOUT ROWID;
INSERT INTO messages_fts_idx VALUES(1,X'',2);
CREATE TABLE IF NOT EXISTS 'messages_fts_docsize'(id INTEGER PRIMARY KEY, sz BLOB);
INSERT INTO messages_fts_docsize VALUES(1,X'06');
INSERT INTO messages_fts_docsize VALUES(2,X'08');
INSERT INTO messages_fts_docsize VALUES(3,X'06');
INSERT INTO messages_fts_docsize VALUES(4,X'04');
INSERT INTO messages_fts_docsize VALUES(5,X'00');
INSERT INTO messages_fts_docsize VALUES(6,X'02');
INSERT INTO messages_fts_docsize VALUES(7,X'06');
INSERT INTO messages_fts_docsize VALUES(8,X'03');
INSERT INTO messages_fts_docsize VALUES(9,X'00');
INSERT INTO messages_fts_docsize VALUES(10,X'00');
INSERT INTO messages_fts_docsize VALUES(11,X'01');
INSERT INTO messages_fts_docsize VALUES(12,X'03');
CREATE TABLE IF NOT EXISTS 'messages_fts_config'(k PRIMARY KEY, v) WITHOUT ROWID;
INSERT INTO messages_fts_config VALUES('version',4);
INSERT INTO sqlite_schema(type,name,tbl_name,rootpage,sql)VALUES('table','titles_fts','titles_fts',0,'CREATE VIRTUAL TABLE titles_fts USING fts5 (
            title, content=''titles_found'', content_rowid=''key'',
            tokenize=''porter unicode61 remove_diacritics 2'', prefix=''1 2 3 4''
        )');
CREATE TABLE IF NOT EXISTS 'titles_fts_data'(id INTEGER PRIMARY KEY, block BLOB);
INSERT INTO titles_fts_data VALUES(1,X'050f');
INSERT INTO titles_fts_data VALUES(10,X'000000000101010001010101');
INSERT INTO titles_fts_data VALUES(137438953473,X'000001d2023061010206010363757404020201046461736802020502016f0102030103686f7701020201016901020401036f666604020302036e6c69050203010471756575050202010572656e616d030202010674617262616c010207020369746c0202030106756e69636f6402020203047061636b0102050104776974680202040002316101020601016304020201016401020301020501016801020201016901020401016f04020301020301017105020201017203020201017401020701020301017501020501020201017702020400033263750402020102646102020502016f0102030102686f01020201026f6604020302016e0502030102717505020201027265030202010274610102070201690202030102756e0102050102020102776902020400043363757404020201036461730202050103686f7701020201036f666604020302026e6c0502030103717565050202010372656e0302020103746172010207020269740202030103756e6902020203017001020501037769740202040005346461736802020501046f6e6c69050203010471756575050202010472656e61030202010474617262010207020369746c0202030104756e696302020203027061010205010477697468020204040608090608060808090a0b080b09090706090606090606090906080706070706070707060a070908080807080808070806080a09090909080907');
CREATE TABLE IF NOT EXISTS 'titles_fts_idx'(segid, term, pgno, PRIMARY KEY(segid, term)) WITHOUT ROWID;
INSERT INTO titles_fts_idx VALUES(1,X'',2);
CREATE TABLE IF NOT EXISTS 'titles_fts_docsize'(id INTEGER PRIMARY KEY, sz BLOB);
INSERT INTO titles_fts_docsize VALUES(1,X'06');
INSERT INTO titles_fts_docsize VALUES(2,X'04');
INSERT INTO titles_fts_docsize VALUES(3,X'01');
INSERT INTO titles_fts_docsize VALUES(4,X'02');
INSERT INTO titles_fts_docsize VALUES(5,X'02');
CREATE TABLE IF NOT EXISTS 'titles_fts_config'(k PRIMARY KEY, v) WITHOUT ROWID;
INSERT INTO titles_fts_config VALUES('version',4);
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
INSERT INTO calls VALUES(1,'56a71cdc30069cb5',0,0,0,'call_1','files','read','{"path":"a"}','done','naïve','2026-11-01T10:00:00.000+00:00','2026-11-01T10:00:01.000+00:00');
CREATE INDEX replays_by_digest ON replays (digest);
CREATE VIEW messages_found AS SELECT key, coalesce(words, text) AS text FROM messages WHERE deleted IS NULL;
CREATE VIEW titles_found AS
            SELECT key, coalesce(words, title) AS title FROM conversations WHERE deleted IS NULL;
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
CREATE INDEX conversations_by_written ON conversations (written);
CREATE TRIGGER calls_end_once
        BEFORE UPDATE ON calls WHEN old.state IN ('done', 'failed', 'refused') BEGIN
            SELECT RAISE(ABORT, 'a tool call that has ended never changes');
        END;
PRAGMA writable_schema=OFF;
COMMIT;
