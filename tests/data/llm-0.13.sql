-- Written by llm 0.13.1 (https://github.com/simonw/llm, Apache-2.0) with models that answer from a list;
-- its search indexes are left out.
CREATE TABLE "conversations" (
   "id" TEXT PRIMARY KEY,
   "name" TEXT,
   "model" TEXT
);
INSERT INTO "conversations" VALUES ('01m80z15cjhvsbbpynrq5v0vj9','how do I unpack a tarball?','scripted');
INSERT INTO "conversations" VALUES ('01m80z15cp1gaq52m6z0w0nmsg','one more é'||char(27)||'[2J?','scripted');
CREATE TABLE "responses" (
   "id" TEXT PRIMARY KEY,
   "model" TEXT,
   "prompt" TEXT,
   "system" TEXT,
   "prompt_json" TEXT,
   "options_json" TEXT,
   "response" TEXT,
   "response_json" TEXT,
   "conversation_id" TEXT REFERENCES "conversations"("id"),
   "duration_ms" INTEGER,
   "datetime_utc" TEXT
);
INSERT INTO "responses" VALUES ('01m80z15ckpncjfqhdtejdg34t','scripted','how do I unpack a tarball?','Be brief.',NULL,'{}','Use tar -xf.',NULL,'01m80z15cjhvsbbpynrq5v0vj9',0,'2026-11-22T06:27:53.874388');
INSERT INTO "responses" VALUES ('01m80z15cnr05qjt7tj4jy7g7a','scripted','and a zip?','Be brief.',NULL,'{}','Then unzip a.zip.',NULL,'01m80z15cjhvsbbpynrq5v0vj9',0,'2026-11-22T06:27:53.876777');
INSERT INTO "responses" VALUES ('01m80z15cq3ebtd1n3tr6mze2s','scripted','one more é'||char(27)||'[2J?',NULL,NULL,'{}','Sure.',NULL,'01m80z15cp1gaq52m6z0w0nmsg',0,'2026-11-22T06:27:53.878082');
