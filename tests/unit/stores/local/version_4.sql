-- A file of the local store as schema version 4 has it: four memories, of which one was superseded and one is an entry
-- of the routing table, three messages, a block, two jobs, of which one is dead, two offloads, of which one is held, and
-- two tool calls, of which one failed.
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
CREATE TABLE offloads (
        offload INTEGER PRIMARY KEY AUTOINCREMENT, scope INTEGER NOT NULL, session INTEGER NOT NULL,
        reference TEXT NOT NULL, kind TEXT NOT NULL, message_id TEXT, digest BLOB NOT NULL, created INTEGER NOT NULL,
        said INTEGER NOT NULL, bytes INTEGER NOT NULL, info TEXT NOT NULL, text TEXT NOT NULL,
        UNIQUE (scope, reference));
CREATE INDEX offloads_by_digest ON offloads (scope, digest);
CREATE INDEX offloads_by_scope ON offloads (scope, offload);
CREATE INDEX offloads_by_session ON offloads (session, offload);
CREATE INDEX offloads_by_message ON offloads (scope, message_id) WHERE message_id IS NOT NULL;
CREATE INDEX offloads_by_age ON offloads (scope, created, offload, kind, bytes);
CREATE TABLE offload_passages (
        passage INTEGER PRIMARY KEY AUTOINCREMENT, scope INTEGER NOT NULL, offload INTEGER NOT NULL,
        start INTEGER NOT NULL, chars INTEGER NOT NULL, line INTEGER NOT NULL);
CREATE INDEX passages_by_scope ON offload_passages (scope);
CREATE INDEX passages_by_offload ON offload_passages (offload);
CREATE TABLE offload_holders (session INTEGER PRIMARY KEY, scope INTEGER NOT NULL, said INTEGER NOT NULL);
CREATE TABLE offload_holds (
        session INTEGER NOT NULL, offload INTEGER NOT NULL, scope INTEGER NOT NULL, since INTEGER NOT NULL,
        PRIMARY KEY (session, offload)) WITHOUT ROWID;
CREATE INDEX holds_by_offload ON offload_holds (offload);
CREATE TABLE tool_calls (
        call INTEGER PRIMARY KEY, scope INTEGER NOT NULL, call_id TEXT NOT NULL, tool_name TEXT NOT NULL,
        created INTEGER NOT NULL, success INTEGER NOT NULL, time_cost REAL, token_cost INTEGER, error TEXT,
        body TEXT NOT NULL, UNIQUE (scope, call_id));
CREATE INDEX tool_calls_by_tool
        ON tool_calls (scope, tool_name, created, call, success, time_cost, token_cost, error);
CREATE INDEX tool_calls_by_age ON tool_calls (scope, created, call);
CREATE VIRTUAL TABLE message_words USING fts5(scope, words, tokenize="ascii tokenchars '!#$%&()*+,-./:;<=>?@[\]^_`{|}~'", detail=column, columnsize=0);
CREATE VIRTUAL TABLE memory_words USING fts5(scope, words, tokenize="ascii tokenchars '!#$%&()*+,-./:;<=>?@[\]^_`{|}~'", detail=column, columnsize=0);
CREATE VIRTUAL TABLE offload_words USING fts5(scope, words, tokenize="ascii tokenchars '!#$%&()*+,-./:;<=>?@[\]^_`{|}~'", columnsize=0);
INSERT INTO meta VALUES ('dimension', '8');
INSERT INTO meta VALUES ('terms', '2');
INSERT INTO scopes VALUES (1, 'space', 'alice');
INSERT INTO sessions VALUES (1, 1, 's');
INSERT INTO sessions VALUES (2, 1, 'session');
INSERT INTO messages VALUES (1, 1, 1, 'm1', 'user', 1768478400.0, 0, 0, 1, X'3A1EFC0904D52C718C81E7766B1FC732', '{"message_id":"m1","role":"user","name":null,"content":[{"type":"text","text":"I play the violin"}],"created_at":"2026-01-15T12:00:00Z","starts_block":false,"metadata":{}}');
INSERT INTO messages VALUES (2, 1, 1, 'm2', 'user', 1768478460.0, 0, 0, 1, X'E8AE4CA6334EC61F187875542D5F4D3203658892070A79FF740BBD290FF689763B77B2BC079642AAF170CA679CDC9E1F42CFA1FAA6387ECC3EC2B20E1EB6C94B195F5D6EBAA6DB97299D62E3F8F710A902B5E73013B2EA74CAE4B387AFC4370C59FE1C47E4A5B7BC', '{"message_id":"m2","role":"user","name":null,"content":[{"type":"text","text":"她在周末打网球"}],"created_at":"2026-01-15T12:01:00Z","starts_block":false,"metadata":{}}');
INSERT INTO messages VALUES (3, 1, 1, 'm3', 'user', 1768478520.0, 1, 0, NULL, X'A9A1987A2F743716', '{"message_id":"m3","role":"user","name":null,"content":[{"type":"text","text":"and next?"}],"created_at":"2026-01-15T12:02:00Z","starts_block":false,"metadata":{}}');
INSERT INTO blocks VALUES (1, 1, 1, 'b1', 1768478400.0, 1768478460.0, X'8C81E7766B1FC732F8588806C0D06BEC', '{"block_id":"b1","session_id":"s","message_ids":["m1","m2"],"repeats":0,"started_at":"2026-01-15T12:00:00Z","ended_at":"2026-01-15T12:01:00Z","summary":"violin and tennis","summary_author":"extractive","created_at":"2026-01-15T12:01:00Z"}');
INSERT INTO memories VALUES (1, 1, 'violin', 'personal', 'self', X'C3D69ED8BBDC58CF08200E8E7D90E823', 1768478400000000, 1768478400.0, 1768478400.0, 1768478700.0, 2, X'3A1EFC0904D52C718C81E7766B1FC732', '{"memory_id":"violin","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"She plays the violin","when_to_use":"","observed_at":"2026-01-15T12:00:00Z","valid_from":"2026-01-15T12:00:00Z","valid_to":"2026-01-15T12:05:00Z","superseded_by":"sold","created_at":"2026-01-15T12:00:00Z","updated_at":"2026-01-15T12:00:00Z","revision":2,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}');
INSERT INTO memories VALUES (2, 1, 'tea', 'personal', 'self', X'8A32E0831E8B483D6E6CE78B3F218AE5', 1768478400000000, 1768478400.0, 1768478400.0, NULL, 1, X'ED8F6A2152FD39A1560383B379D476F0DB475FDA5D35CDB299ACE9A0A347886428721CDC579F20CDA95F5322514EA1AD4EE32AA848C8F1506EA8BBAC54C044EE8C771E28F2140F681CB92A3D150C965C34CC03CE157B1863', '{"memory_id":"tea","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"我喜欢乌龙茶","when_to_use":"","observed_at":"2026-01-15T12:00:00Z","valid_from":"2026-01-15T12:00:00Z","valid_to":null,"superseded_by":null,"created_at":"2026-01-15T12:00:00Z","updated_at":"2026-01-15T12:00:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}');
INSERT INTO memories VALUES (3, 1, 'entry', 'meta', 'personal/Ann', X'080A495BCECBAF1D54B2771C188722D4', 1768478400000000, 1768478400.0, 1768478400.0, NULL, 1, X'6BDB815D9B3FD1318D3ADF6ABF23F3A5A01F03C771B8A818CF51F635E1A4E5BC6BDB815D9B3FD1318D3ADF6ABF23F3A5', '{"memory_id":"entry","memory_space":"space","user_id":"alice","memory_type":"meta","memory_target":"personal/Ann","content":"personal/Ann: memories about the person Ann","when_to_use":"","observed_at":"2026-01-15T12:00:00Z","valid_from":"2026-01-15T12:00:00Z","valid_to":null,"superseded_by":null,"created_at":"2026-01-15T12:00:00Z","updated_at":"2026-01-15T12:00:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}');
INSERT INTO memories VALUES (4, 1, 'sold', 'personal', 'self', X'978C72E785A5192ED972C01F1BF2A34D', 1768478700000000, 1768478700.0, 1768478700.0, NULL, 1, X'21B27C994981C52A8C81E7766B1FC732', '{"memory_id":"sold","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"She sold her violin","when_to_use":"","observed_at":"2026-01-15T12:05:00Z","valid_from":"2026-01-15T12:05:00Z","valid_to":null,"superseded_by":null,"created_at":"2026-01-15T12:05:00Z","updated_at":"2026-01-15T12:05:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}');
INSERT INTO memory_vectors VALUES (1, X'0000803F00000000000000000000000000000000000000000000000000000000');
INSERT INTO memory_vectors VALUES (4, X'6766663FF72CDF3E000000000000000000000000000000000000000000000000');
INSERT INTO events VALUES (1, 1, 'violin', 'add', NULL, '{"memory_id":"violin","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"She plays the violin","when_to_use":"","observed_at":"2026-01-15T12:00:00Z","valid_from":"2026-01-15T12:00:00Z","valid_to":null,"superseded_by":null,"created_at":"2026-01-15T12:00:00Z","updated_at":"2026-01-15T12:00:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', '', NULL, 'user', '2026-01-15T12:00:00Z');
INSERT INTO events VALUES (2, 1, 'tea', 'add', NULL, '{"memory_id":"tea","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"我喜欢乌龙茶","when_to_use":"","observed_at":"2026-01-15T12:00:00Z","valid_from":"2026-01-15T12:00:00Z","valid_to":null,"superseded_by":null,"created_at":"2026-01-15T12:00:00Z","updated_at":"2026-01-15T12:00:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', '', NULL, 'user', '2026-01-15T12:00:00Z');
INSERT INTO events VALUES (3, 1, 'entry', 'add', NULL, '{"memory_id":"entry","memory_space":"space","user_id":"alice","memory_type":"meta","memory_target":"personal/Ann","content":"personal/Ann: memories about the person Ann","when_to_use":"","observed_at":"2026-01-15T12:00:00Z","valid_from":"2026-01-15T12:00:00Z","valid_to":null,"superseded_by":null,"created_at":"2026-01-15T12:00:00Z","updated_at":"2026-01-15T12:00:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', '', NULL, 'user', '2026-01-15T12:00:00Z');
INSERT INTO events VALUES (4, 1, 'violin', 'supersede', '{"memory_id":"violin","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"She plays the violin","when_to_use":"","observed_at":"2026-01-15T12:00:00Z","valid_from":"2026-01-15T12:00:00Z","valid_to":null,"superseded_by":null,"created_at":"2026-01-15T12:00:00Z","updated_at":"2026-01-15T12:00:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', '{"memory_id":"violin","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"She plays the violin","when_to_use":"","observed_at":"2026-01-15T12:00:00Z","valid_from":"2026-01-15T12:00:00Z","valid_to":"2026-01-15T12:05:00Z","superseded_by":"sold","created_at":"2026-01-15T12:00:00Z","updated_at":"2026-01-15T12:00:00Z","revision":2,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', '', NULL, 'user', '2026-01-15T12:00:00Z');
INSERT INTO events VALUES (5, 1, 'sold', 'add', NULL, '{"memory_id":"sold","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"She sold her violin","when_to_use":"","observed_at":"2026-01-15T12:05:00Z","valid_from":"2026-01-15T12:05:00Z","valid_to":null,"superseded_by":null,"created_at":"2026-01-15T12:05:00Z","updated_at":"2026-01-15T12:05:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', '', NULL, 'user', '2026-01-15T12:00:00Z');
INSERT INTO changes VALUES (1, 1, 3, 1);
INSERT INTO changes VALUES (2, 1, 3, 2);
INSERT INTO changes VALUES (3, 1, 3, 3);
INSERT INTO changes VALUES (4, 1, 3, 1);
INSERT INTO changes VALUES (5, 1, 3, 4);
INSERT INTO changes VALUES (6, 1, 1, 1);
INSERT INTO changes VALUES (7, 1, 1, 2);
INSERT INTO changes VALUES (8, 1, 1, 3);
INSERT INTO changes VALUES (9, 1, 2, 1);
INSERT INTO jobs VALUES (1, 1, 'j1', X'B96BC386AE281504D1BEA78ED399E04D', 'work', 'dead', 1768478400000000, 1768478400000000, '{"job_id":"j1","kind":"work","payload":{},"run_id":"run of j1","state":"dead","attempts":0,"created_at":"2026-01-15T12:00:00Z","due_at":"2026-01-15T12:00:00Z","owner":null,"held_until":null,"error":"","raw":""}');
INSERT INTO jobs VALUES (2, 1, 'j2', X'420822D4F4ED236C7395C89C8534F00E', 'work', 'pending', 1768478460000000, 1768478460000000, '{"job_id":"j2","kind":"work","payload":{},"run_id":"run of j2","state":"pending","attempts":0,"created_at":"2026-01-15T12:01:00Z","due_at":"2026-01-15T12:01:00Z","owner":null,"held_until":null,"error":"","raw":""}');
INSERT INTO offloads VALUES (1, 1, 2, 'held', 'text', NULL, X'DE68432D09E6CC135776A1BB0296BDEA9CCB95ED31297C182E6ABE68D9239229', 1768478580000000, 1768478580000000, 26, '{"reference":"held","session_id":"session","kind":"text","name":null,"message_id":null,"place":null,"message_ids":[],"chars":22,"lines":1,"bytes":26,"created_at":"2026-01-15T12:03:00Z","said_at":null}', 'what a tool said of 海象');
INSERT INTO offloads VALUES (2, 1, 2, '6679969bbb81f4cb', 'messages', NULL, X'3AB5943B796154BCDECDD5819FCDEA778E3322A904FF7F9F0B5E506BECB5D7BE', 1768478640000000, 1768478640000000, 0, '{"reference":"6679969bbb81f4cb","session_id":"session","kind":"messages","name":null,"message_id":null,"place":null,"message_ids":["m1"],"chars":0,"lines":0,"bytes":0,"created_at":"2026-01-15T12:04:00Z","said_at":null}', '');
INSERT INTO offload_passages VALUES (1, 1, 1, 0, 22, 1);
INSERT INTO offload_holders VALUES (2, 1, 1768478580000000);
INSERT INTO offload_holds VALUES (2, 1, 1, 1768478580000000);
INSERT INTO tool_calls VALUES (1, 1, 'c1', 'search', 1768478400000000, 1, 0.5, 7, NULL, '{"call_id":"c1","create_time":"2026-01-15T12:00:00Z","tool_name":"search","input":{"query":"walrus"},"output":"found","token_cost":7,"success":true,"time_cost":0.5,"message_ids":[],"metadata":{}}');
INSERT INTO tool_calls VALUES (2, 1, 'c2', 'search', 1768478460000000, 0, NULL, NULL, 'HTTP 503', '{"call_id":"c2","create_time":"2026-01-15T12:01:00Z","tool_name":"search","input":{"query":"walrus"},"output":"HTTP 503","token_cost":null,"success":false,"time_cost":null,"message_ids":[],"metadata":{}}');
INSERT INTO message_words (rowid, scope, words) VALUES (1, 's1', 'play violin');
INSERT INTO message_words (rowid, scope, words) VALUES (2, 's1', '她在 在周 周末 末打 打网 网球 她 在 周 末 打 网 球');
INSERT INTO message_words (rowid, scope, words) VALUES (3, 's1', 'next');
INSERT INTO memory_words (rowid, scope, words) VALUES (1, 's1', 'play violin');
INSERT INTO memory_words (rowid, scope, words) VALUES (2, 's1', '我喜 喜欢 欢乌 乌龙 龙茶 我 喜 欢 乌 龙 茶');
INSERT INTO memory_words (rowid, scope, words) VALUES (3, 's1', 'person ann personal/ann memori person ann');
INSERT INTO memory_words (rowid, scope, words) VALUES (4, 's1', 'sell violin');
INSERT INTO offload_words (rowid, scope, words) VALUES (1, 's1', 'tool say 海象 海 象');
PRAGMA application_id = 1382370661;
PRAGMA user_version = 4;
