-- A file of the local store as schema version 2 has it: four memories, of which one was superseded and one is an entry
-- of the routing table, three messages, of which one waits for its vector, a block, and two jobs, of which one is dead.
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
CREATE TABLE jobs (
        job INTEGER PRIMARY KEY AUTOINCREMENT, scope INTEGER NOT NULL, job_id TEXT NOT NULL, origin BLOB NOT NULL,
        kind TEXT NOT NULL, state TEXT NOT NULL, created INTEGER NOT NULL, due INTEGER NOT NULL, body TEXT NOT NULL,
        UNIQUE (scope, job_id));
CREATE INDEX jobs_by_state ON jobs (scope, state, created);
CREATE INDEX memories_meta ON memories (scope, created, memory_id) WHERE memory_type = 'meta';
CREATE VIRTUAL TABLE message_words USING fts5(scope, words, tokenize="ascii tokenchars '!#$%&()*+,-./:;<=>?@[\]^_`{|}~'", detail=column, columnsize=0);
CREATE VIRTUAL TABLE memory_words USING fts5(scope, words, tokenize="ascii tokenchars '!#$%&()*+,-./:;<=>?@[\]^_`{|}~'", detail=column, columnsize=0);
INSERT INTO meta (key, value) VALUES ('dimension', '8');
INSERT INTO meta (key, value) VALUES ('terms', '2');
INSERT INTO scopes (scope, memory_space, user_id) VALUES (1, 'space', 'alice');
INSERT INTO sessions (session, scope, session_id) VALUES (1, 1, 's');
INSERT INTO messages (seq, scope, session, message_id, speaker, said_at, asks, waits, block, terms, body) VALUES (1, 1, 1, 't1', 'user', 1768478400.0, 0, 0, 1, X'3A1EFC0904D52C718C81E7766B1FC732', '{"message_id":"t1","role":"user","name":null,"content":[{"type":"text","text":"I play the violin"}],"created_at":"2026-01-15T12:00:00Z","starts_block":false,"metadata":{}}');
INSERT INTO messages (seq, scope, session, message_id, speaker, said_at, asks, waits, block, terms, body) VALUES (2, 1, 1, 't2', 'assistant', 1768478400.0, 0, 0, 1, X'EEE864BBD3955D65560383B379D476F08BB98A36794B73BC187875542D5F4D3203658892070A79FF740BBD290FF689763B77B2BC079642AAF170CA679CDC9E1F42CFA1FAA6387ECC4EE32AA848C8F1506EA8BBAC54C044EE3EC2B20E1EB6C94B195F5D6EBAA6DB97299D62E3F8F710A902B5E73013B2EA74CAE4B387AFC4370C59FE1C47E4A5B7BC', '{"message_id":"t2","role":"assistant","name":null,"content":[{"type":"text","text":"她喜欢在周末打网球"}],"created_at":"2026-01-15T12:00:00Z","starts_block":false,"metadata":{}}');
INSERT INTO messages (seq, scope, session, message_id, speaker, said_at, asks, waits, block, terms, body) VALUES (3, 1, 1, 't3', 'user', 1768478400.0, 1, 1, NULL, X'A9A1987A2F743716', '{"message_id":"t3","role":"user","name":null,"content":[{"type":"text","text":"And what next?"}],"created_at":"2026-01-15T12:00:00Z","starts_block":false,"metadata":{}}');
INSERT INTO blocks (block, scope, session, block_id, started_at, ended_at, terms, body) VALUES (1, 1, 1, 'b1', 1768478400.0, 1768478400.0, X'8C81E7766B1FC732F8588806C0D06BEC', '{"block_id":"b1","session_id":"s","message_ids":["t1","t2"],"repeats":0,"started_at":"2026-01-15T12:00:00Z","ended_at":"2026-01-15T12:00:00Z","summary":"violin and tennis","summary_author":"extractive","created_at":"2026-01-15T12:00:00Z"}');
INSERT INTO memories (row, scope, memory_id, memory_type, memory_target, normal, created, observed_at, valid_from, valid_to, revision, terms, body) VALUES (1, 1, 'm1', 'personal', 'self', X'C3D69ED8BBDC58CF08200E8E7D90E823', 1768478400000000, 1768478400.0, 1768478400.0, 1768478700.0, 2, X'3A1EFC0904D52C718C81E7766B1FC732', '{"memory_id":"m1","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"She plays the violin","when_to_use":"","observed_at":"2026-01-15T12:00:00Z","valid_from":"2026-01-15T12:00:00Z","valid_to":"2026-01-15T12:05:00Z","superseded_by":"m2","created_at":"2026-01-15T12:00:00Z","updated_at":"2026-01-15T12:00:00Z","revision":2,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}');
INSERT INTO memories (row, scope, memory_id, memory_type, memory_target, normal, created, observed_at, valid_from, valid_to, revision, terms, body) VALUES (2, 1, 'm3', 'personal', 'self', X'8A32E0831E8B483D6E6CE78B3F218AE5', 1768478400000000, 1768478400.0, 1768478400.0, NULL, 1, X'ED8F6A2152FD39A1560383B379D476F0DB475FDA5D35CDB299ACE9A0A347886428721CDC579F20CDA95F5322514EA1AD4EE32AA848C8F1506EA8BBAC54C044EE8C771E28F2140F681CB92A3D150C965C34CC03CE157B1863', '{"memory_id":"m3","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"我喜欢乌龙茶","when_to_use":"","observed_at":"2026-01-15T12:00:00Z","valid_from":"2026-01-15T12:00:00Z","valid_to":null,"superseded_by":null,"created_at":"2026-01-15T12:00:00Z","updated_at":"2026-01-15T12:00:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}');
INSERT INTO memories (row, scope, memory_id, memory_type, memory_target, normal, created, observed_at, valid_from, valid_to, revision, terms, body) VALUES (3, 1, 'm2', 'personal', 'self', X'978C72E785A5192ED972C01F1BF2A34D', 1768478700000000, 1768478700.0, 1768478700.0, NULL, 1, X'21B27C994981C52A8C81E7766B1FC732', '{"memory_id":"m2","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"She sold her violin","when_to_use":"","observed_at":"2026-01-15T12:05:00Z","valid_from":"2026-01-15T12:05:00Z","valid_to":null,"superseded_by":null,"created_at":"2026-01-15T12:05:00Z","updated_at":"2026-01-15T12:05:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}');
INSERT INTO memories (row, scope, memory_id, memory_type, memory_target, normal, created, observed_at, valid_from, valid_to, revision, terms, body) VALUES (4, 1, 'm4', 'meta', 'personal/Ann', X'8B757FF29AE0A207F312F447E5CD0DB2', 1768478400000000, 1768478400.0, 1768478400.0, NULL, 1, X'6BDB815D9B3FD131CF51F635E1A4E5BC8D3ADF6ABF23F3A5', '{"memory_id":"m4","memory_space":"space","user_id":"alice","memory_type":"meta","memory_target":"personal/Ann","content":"personal memories about Ann","when_to_use":"","observed_at":"2026-01-15T12:00:00Z","valid_from":"2026-01-15T12:00:00Z","valid_to":null,"superseded_by":null,"created_at":"2026-01-15T12:00:00Z","updated_at":"2026-01-15T12:00:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}');
INSERT INTO memory_vectors (row, vector) VALUES (1, X'0000803F00000000000000000000000000000000000000000000000000000000');
INSERT INTO memory_vectors (row, vector) VALUES (3, X'0000803F00000000000000000000000000000000000000000000000000000000');
INSERT INTO events (sequence, scope, memory_id, operation, before, after, reason, run_id, actor, at) VALUES (1, 1, 'm1', 'add', NULL, '{"memory_id":"m1","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"She plays the violin","when_to_use":"","observed_at":"2026-01-15T12:00:00Z","valid_from":"2026-01-15T12:00:00Z","valid_to":null,"superseded_by":null,"created_at":"2026-01-15T12:00:00Z","updated_at":"2026-01-15T12:00:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', '', NULL, 'user', '2026-01-15T12:00:00Z');
INSERT INTO events (sequence, scope, memory_id, operation, before, after, reason, run_id, actor, at) VALUES (2, 1, 'm3', 'add', NULL, '{"memory_id":"m3","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"我喜欢乌龙茶","when_to_use":"","observed_at":"2026-01-15T12:00:00Z","valid_from":"2026-01-15T12:00:00Z","valid_to":null,"superseded_by":null,"created_at":"2026-01-15T12:00:00Z","updated_at":"2026-01-15T12:00:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', '', NULL, 'user', '2026-01-15T12:00:00Z');
INSERT INTO events (sequence, scope, memory_id, operation, before, after, reason, run_id, actor, at) VALUES (3, 1, 'm1', 'supersede', '{"memory_id":"m1","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"She plays the violin","when_to_use":"","observed_at":"2026-01-15T12:00:00Z","valid_from":"2026-01-15T12:00:00Z","valid_to":null,"superseded_by":null,"created_at":"2026-01-15T12:00:00Z","updated_at":"2026-01-15T12:00:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', '{"memory_id":"m1","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"She plays the violin","when_to_use":"","observed_at":"2026-01-15T12:00:00Z","valid_from":"2026-01-15T12:00:00Z","valid_to":"2026-01-15T12:05:00Z","superseded_by":"m2","created_at":"2026-01-15T12:00:00Z","updated_at":"2026-01-15T12:00:00Z","revision":2,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', '', NULL, 'user', '2026-01-15T12:00:00Z');
INSERT INTO events (sequence, scope, memory_id, operation, before, after, reason, run_id, actor, at) VALUES (4, 1, 'm2', 'add', NULL, '{"memory_id":"m2","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"She sold her violin","when_to_use":"","observed_at":"2026-01-15T12:05:00Z","valid_from":"2026-01-15T12:05:00Z","valid_to":null,"superseded_by":null,"created_at":"2026-01-15T12:05:00Z","updated_at":"2026-01-15T12:05:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', '', NULL, 'user', '2026-01-15T12:00:00Z');
INSERT INTO events (sequence, scope, memory_id, operation, before, after, reason, run_id, actor, at) VALUES (5, 1, 'm4', 'add', NULL, '{"memory_id":"m4","memory_space":"space","user_id":"alice","memory_type":"meta","memory_target":"personal/Ann","content":"personal memories about Ann","when_to_use":"","observed_at":"2026-01-15T12:00:00Z","valid_from":"2026-01-15T12:00:00Z","valid_to":null,"superseded_by":null,"created_at":"2026-01-15T12:00:00Z","updated_at":"2026-01-15T12:00:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', '', NULL, 'user', '2026-01-15T12:00:00Z');
INSERT INTO changes (change, scope, layer, row) VALUES (1, 1, 3, 1);
INSERT INTO changes (change, scope, layer, row) VALUES (2, 1, 3, 2);
INSERT INTO changes (change, scope, layer, row) VALUES (3, 1, 3, 1);
INSERT INTO changes (change, scope, layer, row) VALUES (4, 1, 3, 3);
INSERT INTO changes (change, scope, layer, row) VALUES (5, 1, 3, 4);
INSERT INTO changes (change, scope, layer, row) VALUES (6, 1, 1, 1);
INSERT INTO changes (change, scope, layer, row) VALUES (7, 1, 1, 2);
INSERT INTO changes (change, scope, layer, row) VALUES (8, 1, 2, 1);
INSERT INTO changes (change, scope, layer, row) VALUES (9, 1, 1, 3);
INSERT INTO jobs (job, scope, job_id, origin, kind, state, created, due, body) VALUES (1, 1, 'j1', X'12E89904EDD0BA0AFBA4C06580D0302B', 'work', 'dead', 1768478400000000, 1768478400000000, '{"job_id":"j1","kind":"work","payload":{"block":"b1"},"run_id":"run of j1","state":"dead","attempts":1,"created_at":"2026-01-15T12:00:00Z","due_at":"2026-01-15T12:00:00Z","owner":null,"held_until":null,"error":"no answer","raw":"raw"}');
INSERT INTO jobs (job, scope, job_id, origin, kind, state, created, due, body) VALUES (2, 1, 'j2', X'AAFE3F58ED40F69CC704149C319F0489', 'else', 'pending', 1768478400000000, 1768478940000000, '{"job_id":"j2","kind":"else","payload":{},"run_id":"run of j2","state":"pending","attempts":0,"created_at":"2026-01-15T12:00:00Z","due_at":"2026-01-15T12:09:00Z","owner":null,"held_until":null,"error":"","raw":""}');
INSERT INTO message_words (rowid, scope, words) VALUES (1, 's1', 'play violin');
INSERT INTO message_words (rowid, scope, words) VALUES (2, 's1', '她喜 喜欢 欢在 在周 周末 末打 打网 网球 她 喜 欢 在 周 末 打 网 球');
INSERT INTO message_words (rowid, scope, words) VALUES (3, 's1', 'next');
INSERT INTO memory_words (rowid, scope, words) VALUES (1, 's1', 'play violin');
INSERT INTO memory_words (rowid, scope, words) VALUES (2, 's1', '我喜 喜欢 欢乌 乌龙 龙茶 我 喜 欢 乌 龙 茶');
INSERT INTO memory_words (rowid, scope, words) VALUES (3, 's1', 'sell violin');
INSERT INTO memory_words (rowid, scope, words) VALUES (4, 's1', 'person memori ann');
UPDATE sqlite_sequence SET seq = 1 WHERE name = 'scopes';
UPDATE sqlite_sequence SET seq = 4 WHERE name = 'memories';
UPDATE sqlite_sequence SET seq = 5 WHERE name = 'events';
UPDATE sqlite_sequence SET seq = 9 WHERE name = 'changes';
UPDATE sqlite_sequence SET seq = 1 WHERE name = 'sessions';
UPDATE sqlite_sequence SET seq = 3 WHERE name = 'messages';
UPDATE sqlite_sequence SET seq = 1 WHERE name = 'blocks';
UPDATE sqlite_sequence SET seq = 2 WHERE name = 'jobs';
PRAGMA application_id = 1382370661;
PRAGMA user_version = 2;
