-- A file of the local store as release 0.1 wrote it (schema version 1): four memories, of which one was superseded and one
-- deleted, three messages, of which one waits for its vector, and a block.
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE scopes (
        scope INTEGER PRIMARY KEY AUTOINCREMENT, memory_space TEXT NOT NULL, user_id TEXT NOT NULL,
        UNIQUE (memory_space, user_id));
CREATE TABLE sessions (
        session INTEGER PRIMARY KEY AUTOINCREMENT, scope INTEGER NOT NULL, session_id TEXT NOT NULL,
        UNIQUE (scope, session_id));
CREATE TABLE messages (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, scope INTEGER NOT NULL, session INTEGER NOT NULL,
        message_id TEXT NOT NULL, speaker TEXT NOT NULL, said_at REAL NOT NULL, asks INTEGER NOT NULL,
        waits INTEGER NOT NULL, block INTEGER, terms BLOB NOT NULL, body TEXT NOT NULL,
        UNIQUE (scope, message_id));
CREATE INDEX messages_by_scope ON messages (scope, seq);
CREATE INDEX messages_by_session ON messages (session, seq);
CREATE INDEX messages_waiting ON messages (scope, seq) WHERE waits;
CREATE INDEX messages_unsliced ON messages (session, seq) WHERE block IS NULL;
CREATE TABLE message_vectors (seq INTEGER PRIMARY KEY, vector BLOB NOT NULL);
CREATE TABLE blocks (
        block INTEGER PRIMARY KEY AUTOINCREMENT, scope INTEGER NOT NULL, session INTEGER NOT NULL,
        block_id TEXT NOT NULL, started_at REAL NOT NULL, ended_at REAL NOT NULL, terms BLOB NOT NULL,
        body TEXT NOT NULL, UNIQUE (scope, block_id));
CREATE INDEX blocks_by_scope ON blocks (scope, block);
CREATE TABLE memories (
        row INTEGER PRIMARY KEY AUTOINCREMENT, scope INTEGER NOT NULL, memory_id TEXT NOT NULL,
        memory_type TEXT NOT NULL, memory_target TEXT NOT NULL, normal BLOB NOT NULL, created INTEGER NOT NULL,
        observed_at REAL NOT NULL, valid_from REAL NOT NULL, valid_to REAL, revision INTEGER NOT NULL,
        terms BLOB NOT NULL, body TEXT NOT NULL, UNIQUE (scope, memory_id));
CREATE UNIQUE INDEX memories_current ON memories (scope, memory_type, memory_target, normal)
        WHERE valid_to IS NULL;
CREATE INDEX memories_by_age ON memories (scope, created, memory_id);
CREATE TABLE memory_vectors (row INTEGER PRIMARY KEY, vector BLOB NOT NULL);
CREATE TABLE events (
        sequence INTEGER PRIMARY KEY AUTOINCREMENT, scope INTEGER NOT NULL, memory_id TEXT NOT NULL,
        operation TEXT NOT NULL, before TEXT, after TEXT, reason TEXT NOT NULL, run_id TEXT, actor TEXT NOT NULL,
        at TEXT NOT NULL);
CREATE INDEX events_by_memory ON events (scope, memory_id, sequence);
CREATE INDEX events_by_run ON events (scope, run_id, sequence) WHERE run_id IS NOT NULL;
CREATE TABLE changes (
        change INTEGER PRIMARY KEY AUTOINCREMENT, scope INTEGER NOT NULL, layer INTEGER NOT NULL,
        row INTEGER NOT NULL);
CREATE INDEX changes_by_partition ON changes (scope, layer, change);
CREATE VIRTUAL TABLE message_words USING fts5(scope, words, tokenize="ascii tokenchars '!#$%&()*+,-./:;<=>?@[\]^_`{|}~'", detail=column, columnsize=0);
CREATE VIRTUAL TABLE memory_words USING fts5(scope, words, tokenize="ascii tokenchars '!#$%&()*+,-./:;<=>?@[\]^_`{|}~'", detail=column, columnsize=0);
INSERT INTO meta (key, value) VALUES ('dimension', '8');
INSERT INTO meta (key, value) VALUES ('terms', '2');
INSERT INTO scopes (scope, memory_space, user_id) VALUES (1, 'space', 'alice');
INSERT INTO sessions (session, scope, session_id) VALUES (1, 1, 's');
INSERT INTO messages (seq, scope, session, message_id, speaker, said_at, asks, waits, block, terms, body) VALUES (1, 1, 1, 's0', 'Ann', 1768478400.0, 0, 0, 1, x'3a1efc0904d52c718c81e7766b1fc732', '{"message_id":"s0","role":"user","name":"Ann","content":[{"type":"text","text":"I play the violin."}],"created_at":"2026-01-15T12:00:00Z","starts_block":false,"metadata":{}}');
INSERT INTO messages (seq, scope, session, message_id, speaker, said_at, asks, waits, block, terms, body) VALUES (2, 1, 1, 's1', 'Ann', 1768478460.0, 0, 0, 1, x'eee864bbd3955d65560383b379d476f08bb98a36794b73bc187875542d5f4d3203658892070a79ff740bbd290ff689763b77b2bc079642aaf170ca679cdc9e1f42cfa1faa6387ecc4ee32aa848c8f1506ea8bbac54c044ee3ec2b20e1eb6c94b195f5d6ebaa6db97299d62e3f8f710a902b5e73013b2ea74cae4b387afc4370c59fe1c47e4a5b7bc', '{"message_id":"s1","role":"user","name":"Ann","content":[{"type":"text","text":"她喜欢在周末打网球 🎾"}],"created_at":"2026-01-15T12:01:00Z","starts_block":false,"metadata":{}}');
INSERT INTO messages (seq, scope, session, message_id, speaker, said_at, asks, waits, block, terms, body) VALUES (3, 1, 1, 's2', 'Ann', 1768478520.0, 1, 1, NULL, x'a9a1987a2f743716', '{"message_id":"s2","role":"user","name":"Ann","content":[{"type":"text","text":"What''s next?"}],"created_at":"2026-01-15T12:02:00Z","starts_block":false,"metadata":{}}');
INSERT INTO message_vectors (seq, vector) VALUES (1, x'0000803f00000000000000000000000000000000000000000000000000000000');
INSERT INTO message_vectors (seq, vector) VALUES (2, x'000000000000803f000000000000000000000000000000000000000000000000');
INSERT INTO blocks (block, scope, session, block_id, started_at, ended_at, terms, body) VALUES (1, 1, 1, 'b1', 1768478400.0, 1768478460.0, x'8c81e7766b1fc732f170ca679cdc9e1fcae4b387afc4370c59fe1c47e4a5b7bc', '{"block_id":"b1","session_id":"s","message_ids":["s0","s1"],"repeats":0,"started_at":"2026-01-15T12:00:00Z","ended_at":"2026-01-15T12:01:00Z","summary":"violin and 网球","summary_author":"extractive","created_at":"2026-01-15T12:01:00Z"}');
INSERT INTO memories (row, scope, memory_id, memory_type, memory_target, normal, created, observed_at, valid_from, valid_to, revision, terms, body) VALUES (1, 1, 'm1', 'personal', 'self', x'c3d69ed8bbdc58cf08200e8e7d90e823', 1768478400000000, 1768478400.0, 1768478400.0, 1768478700.0, 2, x'3a1efc0904d52c718c81e7766b1fc732', '{"memory_id":"m1","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"She plays the violin","when_to_use":"","observed_at":"2026-01-15T12:00:00Z","valid_from":"2026-01-15T12:00:00Z","valid_to":"2026-01-15T12:05:00Z","superseded_by":"m2","created_at":"2026-01-15T12:00:00Z","updated_at":"2026-01-15T12:00:00Z","revision":2,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}');
INSERT INTO memories (row, scope, memory_id, memory_type, memory_target, normal, created, observed_at, valid_from, valid_to, revision, terms, body) VALUES (2, 1, 'm3', 'personal', 'self', x'8a32e0831e8b483d6e6ce78b3f218ae5', 1768478400000000, 1768478400.0, 1768478400.0, NULL, 1, x'ed8f6a2152fd39a1560383b379d476f0db475fda5d35cdb299ace9a0a347886428721cdc579f20cda95f5322514ea1ad4ee32aa848c8f1506ea8bbac54c044ee8c771e28f2140f681cb92a3d150c965c34cc03ce157b1863', '{"memory_id":"m3","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"我喜欢乌龙茶","when_to_use":"","observed_at":"2026-01-15T12:00:00Z","valid_from":"2026-01-15T12:00:00Z","valid_to":null,"superseded_by":null,"created_at":"2026-01-15T12:00:00Z","updated_at":"2026-01-15T12:00:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}');
INSERT INTO memories (row, scope, memory_id, memory_type, memory_target, normal, created, observed_at, valid_from, valid_to, revision, terms, body) VALUES (3, 1, 'm2', 'personal', 'self', x'978c72e785a5192ed972c01f1bf2a34d', 1768478700000000, 1768478700.0, 1768478700.0, NULL, 1, x'21b27c994981c52a8c81e7766b1fc732', '{"memory_id":"m2","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"She sold her violin","when_to_use":"","observed_at":"2026-01-15T12:05:00Z","valid_from":"2026-01-15T12:05:00Z","valid_to":null,"superseded_by":null,"created_at":"2026-01-15T12:05:00Z","updated_at":"2026-01-15T12:05:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}');
INSERT INTO memory_vectors (row, vector) VALUES (1, x'0000803f00000000000000000000000000000000000000000000000000000000');
INSERT INTO memory_vectors (row, vector) VALUES (3, x'0000003fd7b35d3f000000000000000000000000000000000000000000000000');
INSERT INTO events (sequence, scope, memory_id, operation, before, after, reason, run_id, actor, at) VALUES (1, 1, 'm1', 'add', NULL, '{"memory_id":"m1","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"She plays the violin","when_to_use":"","observed_at":"2026-01-15T12:00:00Z","valid_from":"2026-01-15T12:00:00Z","valid_to":null,"superseded_by":null,"created_at":"2026-01-15T12:00:00Z","updated_at":"2026-01-15T12:00:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', '', NULL, 'user', '2026-01-15T12:00:00Z');
INSERT INTO events (sequence, scope, memory_id, operation, before, after, reason, run_id, actor, at) VALUES (2, 1, 'm3', 'add', NULL, '{"memory_id":"m3","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"我喜欢乌龙茶","when_to_use":"","observed_at":"2026-01-15T12:00:00Z","valid_from":"2026-01-15T12:00:00Z","valid_to":null,"superseded_by":null,"created_at":"2026-01-15T12:00:00Z","updated_at":"2026-01-15T12:00:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', '', NULL, 'user', '2026-01-15T12:00:00Z');
INSERT INTO events (sequence, scope, memory_id, operation, before, after, reason, run_id, actor, at) VALUES (3, 1, 'm1', 'supersede', '{"memory_id":"m1","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"She plays the violin","when_to_use":"","observed_at":"2026-01-15T12:00:00Z","valid_from":"2026-01-15T12:00:00Z","valid_to":null,"superseded_by":null,"created_at":"2026-01-15T12:00:00Z","updated_at":"2026-01-15T12:00:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', '{"memory_id":"m1","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"She plays the violin","when_to_use":"","observed_at":"2026-01-15T12:00:00Z","valid_from":"2026-01-15T12:00:00Z","valid_to":"2026-01-15T12:05:00Z","superseded_by":"m2","created_at":"2026-01-15T12:00:00Z","updated_at":"2026-01-15T12:00:00Z","revision":2,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', '', NULL, 'user', '2026-01-15T12:00:00Z');
INSERT INTO events (sequence, scope, memory_id, operation, before, after, reason, run_id, actor, at) VALUES (4, 1, 'm2', 'add', NULL, '{"memory_id":"m2","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"She sold her violin","when_to_use":"","observed_at":"2026-01-15T12:05:00Z","valid_from":"2026-01-15T12:05:00Z","valid_to":null,"superseded_by":null,"created_at":"2026-01-15T12:05:00Z","updated_at":"2026-01-15T12:05:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', '', NULL, 'user', '2026-01-15T12:00:00Z');
INSERT INTO events (sequence, scope, memory_id, operation, before, after, reason, run_id, actor, at) VALUES (5, 1, 'm4', 'add', NULL, '{"memory_id":"m4","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"The old violin case is blue","when_to_use":"","observed_at":"2026-01-15T12:00:00Z","valid_from":"2026-01-15T12:00:00Z","valid_to":null,"superseded_by":null,"created_at":"2026-01-15T12:00:00Z","updated_at":"2026-01-15T12:00:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', '', NULL, 'user', '2026-01-15T12:00:00Z');
INSERT INTO events (sequence, scope, memory_id, operation, before, after, reason, run_id, actor, at) VALUES (6, 1, 'm4', 'delete', '{"memory_id":"m4","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"The old violin case is blue","when_to_use":"","observed_at":"2026-01-15T12:00:00Z","valid_from":"2026-01-15T12:00:00Z","valid_to":null,"superseded_by":null,"created_at":"2026-01-15T12:00:00Z","updated_at":"2026-01-15T12:00:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', NULL, '', NULL, 'user', '2026-01-15T12:00:00Z');
INSERT INTO changes (change, scope, layer, row) VALUES (1, 1, 3, 1);
INSERT INTO changes (change, scope, layer, row) VALUES (2, 1, 3, 2);
INSERT INTO changes (change, scope, layer, row) VALUES (3, 1, 3, 1);
INSERT INTO changes (change, scope, layer, row) VALUES (4, 1, 3, 3);
INSERT INTO changes (change, scope, layer, row) VALUES (5, 1, 3, 4);
INSERT INTO changes (change, scope, layer, row) VALUES (6, 1, 3, 4);
INSERT INTO changes (change, scope, layer, row) VALUES (7, 1, 1, 1);
INSERT INTO changes (change, scope, layer, row) VALUES (8, 1, 1, 2);
INSERT INTO changes (change, scope, layer, row) VALUES (9, 1, 1, 3);
INSERT INTO changes (change, scope, layer, row) VALUES (10, 1, 1, 1);
INSERT INTO changes (change, scope, layer, row) VALUES (11, 1, 1, 2);
INSERT INTO changes (change, scope, layer, row) VALUES (12, 1, 2, 1);
INSERT INTO message_words (rowid, scope, words) VALUES (1, 's1', 'play violin');
INSERT INTO message_words (rowid, scope, words) VALUES (2, 's1', '她喜 喜欢 欢在 在周 周末 末打 打网 网球 她 喜 欢 在 周 末 打 网 球');
INSERT INTO message_words (rowid, scope, words) VALUES (3, 's1', 'next');
INSERT INTO memory_words (rowid, scope, words) VALUES (1, 's1', 'play violin');
INSERT INTO memory_words (rowid, scope, words) VALUES (2, 's1', '我喜 喜欢 欢乌 乌龙 龙茶 我 喜 欢 乌 龙 茶');
INSERT INTO memory_words (rowid, scope, words) VALUES (3, 's1', 'sell violin');
UPDATE sqlite_sequence SET seq = 1 WHERE name = 'scopes';
UPDATE sqlite_sequence SET seq = 4 WHERE name = 'memories';
UPDATE sqlite_sequence SET seq = 6 WHERE name = 'events';
UPDATE sqlite_sequence SET seq = 12 WHERE name = 'changes';
UPDATE sqlite_sequence SET seq = 1 WHERE name = 'sessions';
UPDATE sqlite_sequence SET seq = 3 WHERE name = 'messages';
UPDATE sqlite_sequence SET seq = 1 WHERE name = 'blocks';
PRAGMA application_id = 1382370661;
PRAGMA user_version = 1;
