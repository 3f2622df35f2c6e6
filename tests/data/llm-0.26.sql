-- Written by llm 0.13.1 and 0.26 (https://github.com/simonw/llm, Apache-2.0) with models that answer from a list;
-- its search indexes are left out.
CREATE TABLE "conversations" (
   "id" TEXT PRIMARY KEY,
   "name" TEXT,
   "model" TEXT
);
INSERT INTO "conversations" VALUES ('01m80z15cjhvsbbpynrq5v0vj9','how do I unpack a tarball?','scripted');
INSERT INTO "conversations" VALUES ('01m80z15cp1gaq52m6z0w0nmsg','one more é'||char(27)||'[2J?','scripted');
INSERT INTO "conversations" VALUES ('01m80z9zy3p2tq1w18mmw2hvv9','TAR(1) User Commands what is th…','scripted');
INSERT INTO "conversations" VALUES ('01m80za03qq045msrzfg6t5kr6','what is the weather there?','scripted');
CREATE TABLE "attachments" (
   "id" TEXT PRIMARY KEY,
   "type" TEXT,
   "path" TEXT,
   "url" TEXT,
   "content" BLOB
);
INSERT INTO "attachments" VALUES ('0f4636c78f65d3639ece5a064b5ae753e3408614a14fb18ab4d7540d2c248543','image/png',NULL,NULL,X'89504E47');
CREATE TABLE "prompt_attachments" (
   "response_id" TEXT REFERENCES "responses"("id"),
   "attachment_id" TEXT REFERENCES "attachments"("id"),
   "order" INTEGER,
   PRIMARY KEY ("response_id", "attachment_id")
);
INSERT INTO "prompt_attachments" VALUES ('01m80za01v9aewvkz6nqjaqmej','0f4636c78f65d3639ece5a064b5ae753e3408614a14fb18ab4d7540d2c248543',0);
CREATE TABLE "schemas" (
   "id" TEXT PRIMARY KEY,
   "content" TEXT
);
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
   "datetime_utc" TEXT,
   "input_tokens" INTEGER,
   "output_tokens" INTEGER,
   "token_details" TEXT,
   "schema_id" TEXT REFERENCES "schemas"("id")
);
INSERT INTO "responses" VALUES ('01m80z15ckpncjfqhdtejdg34t','scripted','how do I unpack a tarball?','Be brief.',NULL,'{}','Use tar -xf.',NULL,'01m80z15cjhvsbbpynrq5v0vj9',0,'2026-11-22T06:27:53.874388',NULL,NULL,NULL,NULL);
INSERT INTO "responses" VALUES ('01m80z15cnr05qjt7tj4jy7g7a','scripted','and a zip?','Be brief.',NULL,'{}','Then unzip a.zip.',NULL,'01m80z15cjhvsbbpynrq5v0vj9',0,'2026-11-22T06:27:53.876777',NULL,NULL,NULL,NULL);
INSERT INTO "responses" VALUES ('01m80z15cq3ebtd1n3tr6mze2s','scripted','one more é'||char(27)||'[2J?',NULL,NULL,'{}','Sure.',NULL,'01m80z15cp1gaq52m6z0w0nmsg',0,'2026-11-22T06:27:53.878082',NULL,NULL,NULL,NULL);
INSERT INTO "responses" VALUES ('01m80z9zy3p2tq1w18mmw2hvva','scripted','what is this?',NULL,NULL,'{}','It is a manual page.',NULL,'01m80z9zy3p2tq1w18mmw2hvv9',0,'2026-11-22T06:32:43.203504+00:00',12,5,NULL,NULL);
INSERT INTO "responses" VALUES ('01m80za01v9aewvkz6nqjaqmej','scripted','and this?',NULL,NULL,'{}','A blue dot.',NULL,'01m80z9zy3p2tq1w18mmw2hvv9',0,'2026-11-22T06:32:43.323393+00:00',12,5,NULL,NULL);
INSERT INTO "responses" VALUES ('01m80za03r8jjzfcbhd9yh76ka','scripted','what is the weather there?',NULL,NULL,'{}','',NULL,'01m80za03qq045msrzfg6t5kr6',0,'2026-11-22T06:32:43.384956+00:00',12,5,NULL,NULL);
INSERT INTO "responses" VALUES ('01m80za05xfdrpe76w8tpwcqkp','scripted','',NULL,NULL,'{}','Sunny, says the tool.',NULL,'01m80za03qq045msrzfg6t5kr6',0,'2026-11-22T06:32:43.453646+00:00',12,5,NULL,NULL);
CREATE TABLE "fragments" (
   "id" INTEGER PRIMARY KEY,
   "hash" TEXT,
   "content" TEXT,
   "datetime_utc" TEXT,
   "source" TEXT
);
INSERT INTO "fragments" VALUES (1,'0e71d2560622ea743be24e2266fc65443fbd33290bb95d8684ebe79d0bcd2010','TAR(1) User Commands','2026-11-22 06:32:43',NULL);
INSERT INTO "fragments" VALUES (2,'dcd095b890976d33d3ce6e9073f2ffc17a278545b8edc0bcc2de2f6964c4d221','You read manuals.','2026-11-22 06:32:43',NULL);
CREATE TABLE "fragment_aliases" (
   "alias" TEXT PRIMARY KEY,
   "fragment_id" INTEGER REFERENCES "fragments"("id")
);
CREATE TABLE "prompt_fragments" (
   "response_id" TEXT REFERENCES "responses"("id"),
   "fragment_id" INTEGER REFERENCES "fragments"("id"),
   "order" INTEGER,
   PRIMARY KEY ("response_id", "fragment_id", "order")
);
INSERT INTO "prompt_fragments" VALUES ('01m80z9zy3p2tq1w18mmw2hvva',1,0);
CREATE TABLE "system_fragments" (
   "response_id" TEXT REFERENCES "responses"("id"),
   "fragment_id" INTEGER REFERENCES "fragments"("id"),
   "order" INTEGER,
   PRIMARY KEY ("response_id", "fragment_id", "order")
);
INSERT INTO "system_fragments" VALUES ('01m80z9zy3p2tq1w18mmw2hvva',2,0);
CREATE TABLE "tools" (
   "id" INTEGER PRIMARY KEY,
   "hash" TEXT,
   "name" TEXT,
   "description" TEXT,
   "input_schema" TEXT
, "plugin" TEXT);
INSERT INTO "tools" VALUES (1,'de0d8b2a7423b7275dd1a3b69d52ed08c8bcc804a13687af2e27f3dc1d1a50af','weather','Weather','{"properties": {"where": {"type": "string"}}, "required": ["where"], "type": "object"}',NULL);
CREATE TABLE "tool_responses" (
   "tool_id" INTEGER REFERENCES "tools"("id"),
   "response_id" TEXT REFERENCES "responses"("id"),
   PRIMARY KEY ("tool_id", "response_id")
);
INSERT INTO "tool_responses" VALUES (1,'01m80za03r8jjzfcbhd9yh76ka');
INSERT INTO "tool_responses" VALUES (1,'01m80za05xfdrpe76w8tpwcqkp');
CREATE TABLE "tool_calls" (
   "id" INTEGER PRIMARY KEY,
   "response_id" TEXT REFERENCES "responses"("id"),
   "tool_id" INTEGER REFERENCES "tools"("id"),
   "name" TEXT,
   "arguments" TEXT,
   "tool_call_id" TEXT
);
INSERT INTO "tool_calls" VALUES (1,'01m80za03r8jjzfcbhd9yh76ka',1,'weather','{"where": "here"}','t0');
CREATE TABLE "tool_instances" (
   "id" INTEGER PRIMARY KEY,
   "plugin" TEXT,
   "name" TEXT,
   "arguments" TEXT
);
CREATE TABLE "tool_results" (
   "id" INTEGER PRIMARY KEY,
   "response_id" TEXT REFERENCES "responses"("id"),
   "tool_id" INTEGER REFERENCES "tools"("id"),
   "name" TEXT,
   "output" TEXT,
   "tool_call_id" TEXT,
   "instance_id" INTEGER REFERENCES "tool_instances"("id")
);
INSERT INTO "tool_results" VALUES (1,'01m80za05xfdrpe76w8tpwcqkp',1,'weather','sunny','t0',NULL);
