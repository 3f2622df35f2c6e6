-- The tables as oterm 0.26.1 creates them (https://github.com/ggozad/oterm, MIT).
CREATE TABLE IF NOT EXISTS "chat" (
    "id"            INTEGER,
    "name"          TEXT,
    "model"         TEXT NOT NULL,
    "system"        TEXT,
    "provider"      TEXT DEFAULT "ollama",
    "parameters"    TEXT DEFAULT "{}",
    "tools"         TEXT DEFAULT "[]",
    "thinking"      BOOLEAN DEFAULT 0,
    PRIMARY KEY("id" AUTOINCREMENT)
);
CREATE TABLE IF NOT EXISTS "message" (
    "id"        INTEGER,
    "chat_id"   INTEGER NOT NULL,
    "author"    TEXT NOT NULL,
    "text"      TEXT NOT NULL,
    "images"    TEXT DEFAULT "[]",
    PRIMARY KEY("id" AUTOINCREMENT),
    FOREIGN KEY("chat_id") REFERENCES "chat"("id") ON DELETE CASCADE
);
INSERT INTO chat (id, name, model, system) VALUES (1, 'chat #1 - llama3.2', 'llama3.2', 'Be brief.');
INSERT INTO chat (id, name, model, system) VALUES (2, NULL, 'llama3.2', NULL);
INSERT INTO chat (id, name, model, system) VALUES (3, 'never used', 'llama3.2', NULL);
INSERT INTO message (chat_id, author, text, images) VALUES (1, 'user', 'how do I unpack a tarball?', '["aGVsbG8="]');
INSERT INTO message (chat_id, author, text, images) VALUES (1, 'assistant', 'tar -xf', '[]');
INSERT INTO message (chat_id, author, text, images) VALUES (2, 'user', 'and a zip?', NULL);
INSERT INTO message (chat_id, author, text, images) VALUES (2, 'assistant', 'unzip', 'not json');
