-- Written by llm 0.13.1, 0.26 and 0.36, one after the other on one file, (https://github.com/simonw/llm, Apache-2.0) with models that answer from a list;
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
, "resolved_model" TEXT, "reasoning" TEXT);
INSERT INTO "responses" VALUES ('01m80z15ckpncjfqhdtejdg34t','scripted','how do I unpack a tarball?','Be brief.',NULL,'{}','Use tar -xf.',NULL,'01m80z15cjhvsbbpynrq5v0vj9',0,'2026-11-22T06:27:53.874388',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "responses" VALUES ('01m80z15cnr05qjt7tj4jy7g7a','scripted','and a zip?','Be brief.',NULL,'{}','Then unzip a.zip.',NULL,'01m80z15cjhvsbbpynrq5v0vj9',0,'2026-11-22T06:27:53.876777',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "responses" VALUES ('01m80z15cq3ebtd1n3tr6mze2s','scripted','one more é'||char(27)||'[2J?',NULL,NULL,'{}','Sure.',NULL,'01m80z15cp1gaq52m6z0w0nmsg',0,'2026-11-22T06:27:53.878082',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "responses" VALUES ('01m80z9zy3p2tq1w18mmw2hvva','scripted','what is this?',NULL,NULL,'{}','It is a manual page.',NULL,'01m80z9zy3p2tq1w18mmw2hvv9',0,'2026-11-22T06:32:43.203504+00:00',12,5,NULL,NULL,NULL,NULL);
INSERT INTO "responses" VALUES ('01m80za01v9aewvkz6nqjaqmej','scripted','and this?',NULL,NULL,'{}','A blue dot.',NULL,'01m80z9zy3p2tq1w18mmw2hvv9',0,'2026-11-22T06:32:43.323393+00:00',12,5,NULL,NULL,NULL,NULL);
INSERT INTO "responses" VALUES ('01m80za03r8jjzfcbhd9yh76ka','scripted','what is the weather there?',NULL,NULL,'{}','',NULL,'01m80za03qq045msrzfg6t5kr6',0,'2026-11-22T06:32:43.384956+00:00',12,5,NULL,NULL,NULL,NULL);
INSERT INTO "responses" VALUES ('01m80za05xfdrpe76w8tpwcqkp','scripted','',NULL,NULL,'{}','Sunny, says the tool.',NULL,'01m80za03qq045msrzfg6t5kr6',0,'2026-11-22T06:32:43.453646+00:00',12,5,NULL,NULL,NULL,NULL);
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
, "exception" TEXT);
INSERT INTO "tool_results" VALUES (1,'01m80za05xfdrpe76w8tpwcqkp',1,'weather','sunny','t0',NULL,NULL);
CREATE TABLE "tool_results_attachments" (
   "tool_result_id" INTEGER REFERENCES "tool_results"("id"),
   "attachment_id" TEXT REFERENCES "attachments"("id"),
   "order" INTEGER,
   PRIMARY KEY ("tool_result_id", "attachment_id")
);
CREATE TABLE "messages" (
   "hash" TEXT PRIMARY KEY,
   "parent_hash" TEXT REFERENCES "messages"("hash"),
   "role" TEXT,
   "provider_metadata" TEXT
);
INSERT INTO "messages" VALUES ('b2:074dea0bd0259e0d5dca16426a45e4f5',NULL,'system',NULL);
INSERT INTO "messages" VALUES ('b2:0ebf96de0646d3f40ff43a98366e54b9','b2:074dea0bd0259e0d5dca16426a45e4f5','user',NULL);
INSERT INTO "messages" VALUES ('b2:e5df7218ac5a0f9ff24130dde980a336','b2:0ebf96de0646d3f40ff43a98366e54b9','assistant',NULL);
INSERT INTO "messages" VALUES ('b2:efcb54b185a0e45d99c9e4dd2ceb976f','b2:e5df7218ac5a0f9ff24130dde980a336','system',NULL);
INSERT INTO "messages" VALUES ('b2:481a368f0637d52ec243beb21042e826','b2:efcb54b185a0e45d99c9e4dd2ceb976f','user',NULL);
INSERT INTO "messages" VALUES ('b2:f9fc1e4d4eb60720191dc97d307851cd','b2:481a368f0637d52ec243beb21042e826','assistant',NULL);
INSERT INTO "messages" VALUES ('b2:42359d45f1d389947bdefb533ee94077','b2:f9fc1e4d4eb60720191dc97d307851cd','user',NULL);
INSERT INTO "messages" VALUES ('b2:04b0f8d8ce6de6738cad2cfb06869481','b2:42359d45f1d389947bdefb533ee94077','assistant',NULL);
INSERT INTO "messages" VALUES ('b2:9b01a830dd2b8006f0ddb8f5ac75bcd1',NULL,'user',NULL);
INSERT INTO "messages" VALUES ('b2:e86a4eea63a532f5e03036cb8b7b60c5','b2:9b01a830dd2b8006f0ddb8f5ac75bcd1','assistant',NULL);
INSERT INTO "messages" VALUES ('b2:28f49f9794341b2099dffe78cbb6d21a','b2:e86a4eea63a532f5e03036cb8b7b60c5','tool',NULL);
INSERT INTO "messages" VALUES ('b2:4fba9501c9619dc589c45be8e86f7734','b2:28f49f9794341b2099dffe78cbb6d21a','assistant',NULL);
INSERT INTO "messages" VALUES ('b2:fcf0505617fd5331c027264e9ccc12e6',NULL,'user',NULL);
INSERT INTO "messages" VALUES ('b2:8031de5cad2f9dfa0998d6a5ce67f063','b2:fcf0505617fd5331c027264e9ccc12e6','assistant',NULL);
INSERT INTO "messages" VALUES ('b2:5ca6cb3870534c8f13f8125913ec3c49','b2:fcf0505617fd5331c027264e9ccc12e6','assistant',NULL);
INSERT INTO "messages" VALUES ('b2:c333291dd01cc293bd631867b758b698',NULL,'user',NULL);
INSERT INTO "messages" VALUES ('b2:252b14d13bf8719c080177d0dd03658e','b2:c333291dd01cc293bd631867b758b698','assistant',NULL);
CREATE TABLE "parts" (
   "id" INTEGER PRIMARY KEY,
   "message_hash" TEXT REFERENCES "messages"("hash"),
   "position" INTEGER,
   "type" TEXT,
   "tool_name" TEXT,
   "text" TEXT,
   "payload" TEXT
);
INSERT INTO "parts" VALUES (1,'b2:074dea0bd0259e0d5dca16426a45e4f5',0,'text',NULL,'Be brief.',NULL);
INSERT INTO "parts" VALUES (2,'b2:0ebf96de0646d3f40ff43a98366e54b9',0,'text',NULL,'how do I unpack a tarball?',NULL);
INSERT INTO "parts" VALUES (3,'b2:e5df7218ac5a0f9ff24130dde980a336',0,'text',NULL,'Use tar -xf.',NULL);
INSERT INTO "parts" VALUES (4,'b2:efcb54b185a0e45d99c9e4dd2ceb976f',0,'text',NULL,'Be brief.',NULL);
INSERT INTO "parts" VALUES (5,'b2:481a368f0637d52ec243beb21042e826',0,'text',NULL,'and a zip?',NULL);
INSERT INTO "parts" VALUES (6,'b2:f9fc1e4d4eb60720191dc97d307851cd',0,'text',NULL,'Then unzip a.zip.',NULL);
INSERT INTO "parts" VALUES (7,'b2:42359d45f1d389947bdefb533ee94077',0,'text',NULL,'why?',NULL);
INSERT INTO "parts" VALUES (8,'b2:04b0f8d8ce6de6738cad2cfb06869481',0,'text',NULL,'Because tar keeps permissions.',NULL);
INSERT INTO "parts" VALUES (9,'b2:9b01a830dd2b8006f0ddb8f5ac75bcd1',0,'text',NULL,'what is the weather?',NULL);
INSERT INTO "parts" VALUES (10,'b2:e86a4eea63a532f5e03036cb8b7b60c5',0,'reasoning',NULL,'I should look it up.',NULL);
INSERT INTO "parts" VALUES (11,'b2:e86a4eea63a532f5e03036cb8b7b60c5',1,'tool_call','weather',NULL,'{"name": "weather", "arguments": {"where": "here"}, "tool_call_id": "t1"}');
INSERT INTO "parts" VALUES (12,'b2:28f49f9794341b2099dffe78cbb6d21a',0,'tool_result','weather',NULL,'{"name": "weather", "output": "sunny", "tool_call_id": "t1"}');
INSERT INTO "parts" VALUES (13,'b2:4fba9501c9619dc589c45be8e86f7734',0,'text',NULL,'The weather is fine.',NULL);
INSERT INTO "parts" VALUES (14,'b2:fcf0505617fd5331c027264e9ccc12e6',0,'text',NULL,NULL,'{"text_ref": [{"fragment": 1}, {"literal": "\nwhat is this?"}]}');
INSERT INTO "parts" VALUES (15,'b2:8031de5cad2f9dfa0998d6a5ce67f063',0,'text',NULL,'It is a manual.',NULL);
INSERT INTO "parts" VALUES (16,'b2:5ca6cb3870534c8f13f8125913ec3c49',0,'text',NULL,'A shorter answer.',NULL);
INSERT INTO "parts" VALUES (17,'b2:c333291dd01cc293bd631867b758b698',0,'text',NULL,'and this?',NULL);
INSERT INTO "parts" VALUES (18,'b2:c333291dd01cc293bd631867b758b698',1,'attachment',NULL,NULL,'{"attachment": {"id": "0f4636c78f65d3639ece5a064b5ae753e3408614a14fb18ab4d7540d2c248543"}}');
INSERT INTO "parts" VALUES (19,'b2:252b14d13bf8719c080177d0dd03658e',0,'text',NULL,'A red square.',NULL);
CREATE TABLE "part_attachments" (
   "part_id" INTEGER REFERENCES "parts"("id"),
   "attachment_id" TEXT REFERENCES "attachments"("id"),
   "order" INTEGER,
   PRIMARY KEY ("part_id", "attachment_id", "order")
);
INSERT INTO "part_attachments" VALUES (18,'0f4636c78f65d3639ece5a064b5ae753e3408614a14fb18ab4d7540d2c248543',0);
CREATE TABLE "part_fragments" (
   "part_id" INTEGER REFERENCES "parts"("id"),
   "fragment_id" INTEGER REFERENCES "fragments"("id"),
   "order" INTEGER,
   PRIMARY KEY ("part_id", "fragment_id", "order")
);
INSERT INTO "part_fragments" VALUES (14,1,0);
CREATE TABLE "threads" (
   "id" TEXT PRIMARY KEY,
   "name" TEXT,
   "tip_message_hash" TEXT REFERENCES "messages"("hash"),
   "forked_from" TEXT REFERENCES "threads"("id"),
   "datetime_utc" TEXT
);
INSERT INTO "threads" VALUES ('01m80z15cjhvsbbpynrq5v0vj9','why?','b2:04b0f8d8ce6de6738cad2cfb06869481',NULL,'2026-11-22 06:32:44.573165+00:00');
INSERT INTO "threads" VALUES ('01m80za194mf9jzaq684g5ry14','what is the weather?','b2:4fba9501c9619dc589c45be8e86f7734',NULL,'2026-11-22 06:32:44.581973+00:00');
INSERT INTO "threads" VALUES ('01m80za19m4ga0k6cx0bbxrtw6','TAR(1) User Commands what is th…','b2:5ca6cb3870534c8f13f8125913ec3c49',NULL,'2026-11-22 06:32:44.597322+00:00');
INSERT INTO "threads" VALUES ('01m80za19yx1ftxvdmdjaxydhy','and this?','b2:252b14d13bf8719c080177d0dd03658e',NULL,'2026-11-22 06:32:44.607261+00:00');
CREATE TABLE "turns" (
   "id" TEXT PRIMARY KEY,
   "thread_id" TEXT REFERENCES "threads"("id"),
   "parent_message_hash" TEXT REFERENCES "messages"("hash"),
   "tip_message_hash" TEXT REFERENCES "messages"("hash"),
   "model" TEXT,
   "resolved_model" TEXT,
   "options_json" TEXT,
   "schema_id" TEXT REFERENCES "schemas"("id"),
   "input_tokens" INTEGER,
   "output_tokens" INTEGER,
   "token_details" TEXT,
   "duration_ms" INTEGER,
   "datetime_utc" TEXT
, "response_json" TEXT);
INSERT INTO "turns" VALUES ('01m80za18wdfjn8q0tsxwpxz23','01m80z15cjhvsbbpynrq5v0vj9','b2:42359d45f1d389947bdefb533ee94077','b2:04b0f8d8ce6de6738cad2cfb06869481','scripted',NULL,NULL,NULL,NULL,NULL,NULL,0,'2026-11-22T06:32:44.572471+00:00',NULL);
INSERT INTO "turns" VALUES ('01m80za1950vdn2ebwb426n5qn','01m80za194mf9jzaq684g5ry14','b2:9b01a830dd2b8006f0ddb8f5ac75bcd1','b2:e86a4eea63a532f5e03036cb8b7b60c5','scripted',NULL,NULL,NULL,NULL,NULL,NULL,0,'2026-11-22T06:32:44.581692+00:00',NULL);
INSERT INTO "turns" VALUES ('01m80za19ge6rq80cptzkqyvgw','01m80za194mf9jzaq684g5ry14','b2:28f49f9794341b2099dffe78cbb6d21a','b2:4fba9501c9619dc589c45be8e86f7734','scripted',NULL,NULL,NULL,NULL,NULL,NULL,0,'2026-11-22T06:32:44.592191+00:00',NULL);
INSERT INTO "turns" VALUES ('01m80za19m4ga0k6cx0bbxrtw7','01m80za19m4ga0k6cx0bbxrtw6','b2:fcf0505617fd5331c027264e9ccc12e6','b2:8031de5cad2f9dfa0998d6a5ce67f063','scripted',NULL,NULL,NULL,NULL,NULL,NULL,0,'2026-11-22T06:32:44.597025+00:00',NULL);
INSERT INTO "turns" VALUES ('01m80za19v6t0f51ag5t2768c1','01m80za19m4ga0k6cx0bbxrtw6','b2:fcf0505617fd5331c027264e9ccc12e6','b2:5ca6cb3870534c8f13f8125913ec3c49','scripted',NULL,NULL,NULL,NULL,NULL,NULL,0,'2026-11-22T06:32:44.603413+00:00',NULL);
INSERT INTO "turns" VALUES ('01m80za19yx1ftxvdmdjaxydhz','01m80za19yx1ftxvdmdjaxydhy','b2:c333291dd01cc293bd631867b758b698','b2:252b14d13bf8719c080177d0dd03658e','scripted',NULL,NULL,NULL,NULL,NULL,NULL,0,'2026-11-22T06:32:44.606930+00:00',NULL);
CREATE TABLE "turn_fragments" (
   "turn_id" TEXT REFERENCES "turns"("id"),
   "fragment_id" INTEGER REFERENCES "fragments"("id"),
   "order" INTEGER,
   "kind" TEXT,
   PRIMARY KEY ("turn_id", "fragment_id", "kind", "order")
);
INSERT INTO "turn_fragments" VALUES ('01m80za19m4ga0k6cx0bbxrtw7',1,0,'prompt');
INSERT INTO "turn_fragments" VALUES ('01m80za19v6t0f51ag5t2768c1',1,0,'prompt');
CREATE TABLE "turn_tools" (
   "turn_id" TEXT REFERENCES "turns"("id"),
   "tool_id" INTEGER REFERENCES "tools"("id"),
   "instance_id" INTEGER REFERENCES "tool_instances"("id"),
   PRIMARY KEY ("turn_id", "tool_id")
);
INSERT INTO "turn_tools" VALUES ('01m80za1950vdn2ebwb426n5qn',1,NULL);
INSERT INTO "turn_tools" VALUES ('01m80za19ge6rq80cptzkqyvgw',1,NULL);
CREATE TABLE "tool_instantiations" (
   "turn_id" TEXT REFERENCES "turns"("id"),
   "tool_call_id" TEXT,
   "instance_id" INTEGER REFERENCES "tool_instances"("id"),
   PRIMARY KEY ("turn_id", "tool_call_id")
);
