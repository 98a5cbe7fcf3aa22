-- A file of the local store as schema version 5 has it, where a memory with an end counts as one that was replaced:
-- fifteen memories, of which two were replaced by another one ("violin", that of the item "l"), one where it comes from
-- ("flute"), and seven have ended or will end by themselves, two messages in a block and one in none, a job, an offload,
-- a tool call, and four items, of which three are memories. Equal texts: "She works at Acme" of two times, "She is on
-- holiday" of three, and an item that stands beside the memory that says the same.
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
        terms BLOB NOT NULL, body TEXT NOT NULL, ranked INTEGER NOT NULL DEFAULT 1, UNIQUE (scope, memory_id));
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
CREATE TABLE item_namespaces (
        ns INTEGER PRIMARY KEY AUTOINCREMENT, memory_space TEXT NOT NULL, path TEXT NOT NULL,
        UNIQUE (memory_space, path));
CREATE TABLE items (
        item INTEGER PRIMARY KEY AUTOINCREMENT, ns INTEGER NOT NULL, key TEXT NOT NULL, created INTEGER NOT NULL,
        updated INTEGER NOT NULL, expires INTEGER, ttl INTEGER, memory_row INTEGER, value TEXT NOT NULL,
        UNIQUE (ns, key));
CREATE INDEX items_by_update ON items (ns, updated DESC, item);
CREATE UNIQUE INDEX items_by_memory ON items (memory_row) WHERE memory_row IS NOT NULL;
CREATE INDEX items_by_expiry ON items (expires) WHERE expires IS NOT NULL;
CREATE TABLE item_vectors (vector INTEGER PRIMARY KEY, item INTEGER NOT NULL, data BLOB NOT NULL);
CREATE INDEX item_vectors_by_item ON item_vectors (item);
CREATE TABLE item_changes (change INTEGER PRIMARY KEY AUTOINCREMENT, ns INTEGER NOT NULL, item INTEGER NOT NULL);
CREATE INDEX item_changes_by_namespace ON item_changes (ns, change);
CREATE VIRTUAL TABLE message_words USING fts5(scope, words, tokenize="ascii tokenchars '!#$%&()*+,-./:;<=>?@[\]^_`{|}~'", detail=column, columnsize=0);
CREATE VIRTUAL TABLE memory_words USING fts5(scope, words, tokenize="ascii tokenchars '!#$%&()*+,-./:;<=>?@[\]^_`{|}~'", detail=column, columnsize=0);
CREATE VIRTUAL TABLE offload_words USING fts5(scope, words, tokenize="ascii tokenchars '!#$%&()*+,-./:;<=>?@[\]^_`{|}~'", columnsize=0);
INSERT INTO meta VALUES ('dimension', '8');
INSERT INTO meta VALUES ('terms', '3');
INSERT INTO scopes VALUES (1, 'space', 'alice');
INSERT INTO sessions VALUES (1, 1, 's');
INSERT INTO sessions VALUES (2, 1, 'session');
INSERT INTO messages VALUES (1, 1, 1, 'm1', 'user', 1768478400.0, 0, 0, 1, X'3A1EFC0904D52C718C81E7766B1FC732', '{"message_id":"m1","role":"user","name":null,"content":[{"type":"text","text":"I play the violin"}],"created_at":"2026-01-15T12:00:00Z","starts_block":false,"metadata":{}}');
INSERT INTO messages VALUES (2, 1, 1, 'm2', 'user', 1768478460.0, 0, 0, 1, X'E8AE4CA6334EC61F187875542D5F4D3203658892070A79FF740BBD290FF689763B77B2BC079642AAF170CA679CDC9E1F42CFA1FAA6387ECC3EC2B20E1EB6C94B195F5D6EBAA6DB97299D62E3F8F710A902B5E73013B2EA74CAE4B387AFC4370C59FE1C47E4A5B7BC', '{"message_id":"m2","role":"user","name":null,"content":[{"type":"text","text":"她在周末打网球"}],"created_at":"2026-01-15T12:01:00Z","starts_block":false,"metadata":{}}');
INSERT INTO messages VALUES (3, 1, 1, 'm3', 'user', 1768478520.0, 1, 0, NULL, X'A9A1987A2F743716', '{"message_id":"m3","role":"user","name":null,"content":[{"type":"text","text":"and next?"}],"created_at":"2026-01-15T12:02:00Z","starts_block":false,"metadata":{}}');
INSERT INTO blocks VALUES (1, 1, 1, 'b1', 1768478400.0, 1768478460.0, X'8C81E7766B1FC732F8588806C0D06BEC', '{"block_id":"b1","session_id":"s","message_ids":["m1","m2"],"repeats":0,"started_at":"2026-01-15T12:00:00Z","ended_at":"2026-01-15T12:01:00Z","summary":"violin and tennis","summary_author":"extractive","created_at":"2026-01-15T12:01:00Z"}');
INSERT INTO memories VALUES (1, 1, 'violin', 'personal', 'self', X'C3D69ED8BBDC58CF08200E8E7D90E823', 1768478400000000, 1768478400.0, 1768478400.0, 1768478700.0, 2, X'3A1EFC0904D52C718C81E7766B1FC732', '{"memory_id":"violin","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"She plays the violin","when_to_use":"","observed_at":"2026-01-15T12:00:00Z","valid_from":"2026-01-15T12:00:00Z","valid_to":"2026-01-15T12:05:00Z","superseded_by":"sold","created_at":"2026-01-15T12:00:00Z","updated_at":"2026-01-15T12:00:00Z","revision":2,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', 1);
INSERT INTO memories VALUES (2, 1, 'tea', 'personal', 'self', X'8A32E0831E8B483D6E6CE78B3F218AE5', 1768478400000000, 1768478400.0, 1768478400.0, NULL, 1, X'ED8F6A2152FD39A1560383B379D476F0DB475FDA5D35CDB299ACE9A0A347886428721CDC579F20CDA95F5322514EA1AD4EE32AA848C8F1506EA8BBAC54C044EE8C771E28F2140F681CB92A3D150C965C34CC03CE157B1863', '{"memory_id":"tea","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"我喜欢乌龙茶","when_to_use":"","observed_at":"2026-01-15T12:00:00Z","valid_from":"2026-01-15T12:00:00Z","valid_to":null,"superseded_by":null,"created_at":"2026-01-15T12:00:00Z","updated_at":"2026-01-15T12:00:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', 1);
INSERT INTO memories VALUES (3, 1, 'entry', 'meta', 'personal/Ann', X'080A495BCECBAF1D54B2771C188722D4', 1768478400000000, 1768478400.0, 1768478400.0, NULL, 1, X'6BDB815D9B3FD1318D3ADF6ABF23F3A5A01F03C771B8A818CF51F635E1A4E5BC6BDB815D9B3FD1318D3ADF6ABF23F3A5', '{"memory_id":"entry","memory_space":"space","user_id":"alice","memory_type":"meta","memory_target":"personal/Ann","content":"personal/Ann: memories about the person Ann","when_to_use":"","observed_at":"2026-01-15T12:00:00Z","valid_from":"2026-01-15T12:00:00Z","valid_to":null,"superseded_by":null,"created_at":"2026-01-15T12:00:00Z","updated_at":"2026-01-15T12:00:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', 1);
INSERT INTO memories VALUES (4, 1, 'sold', 'personal', 'self', X'978C72E785A5192ED972C01F1BF2A34D', 1768478700000000, 1768478700.0, 1768478700.0, NULL, 1, X'21B27C994981C52A8C81E7766B1FC732', '{"memory_id":"sold","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"She sold her violin","when_to_use":"","observed_at":"2026-01-15T12:05:00Z","valid_from":"2026-01-15T12:05:00Z","valid_to":null,"superseded_by":null,"created_at":"2026-01-15T12:05:00Z","updated_at":"2026-01-15T12:05:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', 1);
INSERT INTO memories VALUES (5, 1, 'rome', 'personal', 'self', X'D5535A93653C17034BE25508798536C8', 1768478760000000, 1768478760.0, 1686528000.0, 1687046400.0, 1, X'56F8B57EF1561346D4748E2E63167024AECCCB03AD42D257', '{"memory_id":"rome","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"She took a trip to Rome","when_to_use":"","observed_at":"2026-01-15T12:06:00Z","valid_from":"2023-06-12T00:00:00Z","valid_to":"2023-06-18T00:00:00Z","superseded_by":null,"created_at":"2026-01-15T12:06:00Z","updated_at":"2026-01-15T12:06:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', 1);
INSERT INTO memories VALUES (6, 1, 'opening', 'personal', 'self', X'470A11301844612C12E45486B71ACEDF', 1768478820000000, 1768478820.0, 1939680000.0, 1939766400.0, 1, X'1E71F1693FB2E8F727BC2F75FC4732AB18BF7E4436CEC960', '{"memory_id":"opening","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"The opening night of the studio","when_to_use":"","observed_at":"2026-01-15T12:07:00Z","valid_from":"2031-06-20T00:00:00Z","valid_to":"2031-06-21T00:00:00Z","superseded_by":null,"created_at":"2026-01-15T12:07:00Z","updated_at":"2026-01-15T12:07:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', 1);
INSERT INTO memories VALUES (7, 1, 'acme then', 'personal', 'self', X'70968019C6FED338B8FC878A060C06FE', 1768478940000000, 1768478940.0, 1420070400.0, 1546300800.0, 1, X'B4C496750066F455891D433266534E5A', '{"memory_id":"acme then","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"She works at Acme","when_to_use":"","observed_at":"2026-01-15T12:09:00Z","valid_from":"2015-01-01T00:00:00Z","valid_to":"2019-01-01T00:00:00Z","superseded_by":null,"created_at":"2026-01-15T12:09:00Z","updated_at":"2026-01-15T12:09:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', 1);
INSERT INTO memories VALUES (8, 1, 'acme now', 'personal', 'self', X'70968019C6FED338B8FC878A060C06FE', 1768478880000000, 1768478880.0, 1704067200.0, NULL, 1, X'B4C496750066F455891D433266534E5A', '{"memory_id":"acme now","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"She works at Acme.","when_to_use":"","observed_at":"2026-01-15T12:08:00Z","valid_from":"2024-01-01T00:00:00Z","valid_to":null,"superseded_by":null,"created_at":"2026-01-15T12:08:00Z","updated_at":"2026-01-15T12:08:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', 1);
INSERT INTO memories VALUES (9, 1, 'holiday 2021', 'personal', 'self', X'E26FEAD4DF8DB0E850DA5E3874C760B2', 1768479000000000, 1768479000.0, 1625097600.0, 1627776000.0, 1, X'9B1A344FB094BEF1', '{"memory_id":"holiday 2021","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"She is on holiday","when_to_use":"","observed_at":"2026-01-15T12:10:00Z","valid_from":"2021-07-01T00:00:00Z","valid_to":"2021-08-01T00:00:00Z","superseded_by":null,"created_at":"2026-01-15T12:10:00Z","updated_at":"2026-01-15T12:10:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', 1);
INSERT INTO memories VALUES (10, 1, 'holiday 2023', 'personal', 'self', X'E26FEAD4DF8DB0E850DA5E3874C760B2', 1768479060000000, 1768479060.0, 1688169600.0, 1690848000.0, 1, X'9B1A344FB094BEF1', '{"memory_id":"holiday 2023","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"She is on holiday","when_to_use":"","observed_at":"2026-01-15T12:11:00Z","valid_from":"2023-07-01T00:00:00Z","valid_to":"2023-08-01T00:00:00Z","superseded_by":null,"created_at":"2026-01-15T12:11:00Z","updated_at":"2026-01-15T12:11:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', 1);
INSERT INTO memories VALUES (11, 1, 'holiday 2022', 'personal', 'self', X'E26FEAD4DF8DB0E850DA5E3874C760B2', 1768479120000000, 1768479120.0, 1656633600.0, 1659312000.0, 1, X'9B1A344FB094BEF1', '{"memory_id":"holiday 2022","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"she is on holiday","when_to_use":"","observed_at":"2026-01-15T12:12:00Z","valid_from":"2022-07-01T00:00:00Z","valid_to":"2022-08-01T00:00:00Z","superseded_by":null,"created_at":"2026-01-15T12:12:00Z","updated_at":"2026-01-15T12:12:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', 1);
INSERT INTO memories VALUES (12, 1, 'flute', 'personal', 'self', X'02B3D3EFCB8DD9D25F361A7FD53B669B', 1768479150000000, 1768479150.0, 1262304000.0, 1325376000.0, 1, X'3A1EFC0904D52C71A695A6ACAF439EDC', '{"memory_id":"flute","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"She plays the flute","when_to_use":"","observed_at":"2026-01-15T12:12:30Z","valid_from":"2010-01-01T00:00:00Z","valid_to":"2012-01-01T00:00:00Z","superseded_by":null,"created_at":"2026-01-15T12:12:30Z","updated_at":"2026-01-15T12:12:30Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{"origin":{"superseded_by":"elsewhere"}}}', 1);
INSERT INTO memories VALUES (13, 1, '9f292fbba3e54b4dbbf57682f3972e42', 'personal', 'self', X'8C8B67A5C2D7112B88905B2A2B198E74', 1768479180000000, 1768479180.0, 1768479180.0, 1768479240.0, 2, X'DD51ACAED62FD256', '{"memory_id":"9f292fbba3e54b4dbbf57682f3972e42","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"a walrus","when_to_use":"","observed_at":"2026-01-15T12:13:00Z","valid_from":"2026-01-15T12:13:00Z","valid_to":"2026-01-15T12:14:00Z","superseded_by":null,"created_at":"2026-01-15T12:13:00Z","updated_at":"2026-01-15T12:13:00Z","revision":2,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', 1);
INSERT INTO memories VALUES (14, 1, 'f59d99bc8a73448abea928a4f531e106', 'personal', 'self', X'29E7238FE774E6FDDC306E7177AD961E', 1768479180000000, 1768479180.0, 1768479180.0, 1768479240.0, 2, X'C8E99AE36BFF42C0', '{"memory_id":"f59d99bc8a73448abea928a4f531e106","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"a seal","when_to_use":"","observed_at":"2026-01-15T12:13:00Z","valid_from":"2026-01-15T12:13:00Z","valid_to":"2026-01-15T12:14:00Z","superseded_by":"sold","created_at":"2026-01-15T12:13:00Z","updated_at":"2026-01-15T12:13:00Z","revision":2,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', 1);
INSERT INTO memories VALUES (15, 1, '5e921520a49146bf83cd3a871c02da07', 'personal', 'self', X'6C0A2C2F7A494E3721BB7627ADBDBCE0', 1768479180000000, 1768479180.0, 1768479180.0, NULL, 1, X'ED8F6A2152FD39A1560383B379D476F0DB475FDA5D35CDB299ACE9A0A347886428721CDC579F20CDA95F5322514EA1AD4EE32AA848C8F1506EA8BBAC54C044EE8C771E28F2140F681CB92A3D150C965C34CC03CE157B1863', '{"memory_id":"5e921520a49146bf83cd3a871c02da07","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"我喜欢乌龙茶","when_to_use":"","observed_at":"2026-01-15T12:13:00Z","valid_from":"2026-01-15T12:13:00Z","valid_to":null,"superseded_by":null,"created_at":"2026-01-15T12:13:00Z","updated_at":"2026-01-15T12:13:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', 1);
INSERT INTO memory_vectors VALUES (1, X'0000803F00000000000000000000000000000000000000000000000000000000');
INSERT INTO memory_vectors VALUES (4, X'6766663FF72CDF3E000000000000000000000000000000000000000000000000');
INSERT INTO memory_vectors VALUES (5, X'00000000000000000000803F0000000000000000000000000000000000000000');
INSERT INTO memory_vectors VALUES (7, X'0000000000000000000000000000803F00000000000000000000000000000000');
INSERT INTO memory_vectors VALUES (8, X'0000000000000000000000000000803F00000000000000000000000000000000');
INSERT INTO memory_vectors VALUES (13, X'00000000000000000000000000000000000000000000803F0000000000000000');
INSERT INTO memory_vectors VALUES (14, X'0000000000000000000000000000000000000000000000000000803F00000000');
INSERT INTO memory_vectors VALUES (15, X'000000000000000000000000000000000000000000000000000000000000803F');
INSERT INTO events VALUES (1, 1, 'violin', 'add', NULL, '{"memory_id":"violin","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"She plays the violin","when_to_use":"","observed_at":"2026-01-15T12:00:00Z","valid_from":"2026-01-15T12:00:00Z","valid_to":null,"superseded_by":null,"created_at":"2026-01-15T12:00:00Z","updated_at":"2026-01-15T12:00:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', '', NULL, 'user', '2026-01-15T12:00:00Z');
INSERT INTO events VALUES (2, 1, 'tea', 'add', NULL, '{"memory_id":"tea","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"我喜欢乌龙茶","when_to_use":"","observed_at":"2026-01-15T12:00:00Z","valid_from":"2026-01-15T12:00:00Z","valid_to":null,"superseded_by":null,"created_at":"2026-01-15T12:00:00Z","updated_at":"2026-01-15T12:00:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', '', NULL, 'user', '2026-01-15T12:00:00Z');
INSERT INTO events VALUES (3, 1, 'entry', 'add', NULL, '{"memory_id":"entry","memory_space":"space","user_id":"alice","memory_type":"meta","memory_target":"personal/Ann","content":"personal/Ann: memories about the person Ann","when_to_use":"","observed_at":"2026-01-15T12:00:00Z","valid_from":"2026-01-15T12:00:00Z","valid_to":null,"superseded_by":null,"created_at":"2026-01-15T12:00:00Z","updated_at":"2026-01-15T12:00:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', '', NULL, 'user', '2026-01-15T12:00:00Z');
INSERT INTO events VALUES (4, 1, 'violin', 'supersede', '{"memory_id":"violin","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"She plays the violin","when_to_use":"","observed_at":"2026-01-15T12:00:00Z","valid_from":"2026-01-15T12:00:00Z","valid_to":null,"superseded_by":null,"created_at":"2026-01-15T12:00:00Z","updated_at":"2026-01-15T12:00:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', '{"memory_id":"violin","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"She plays the violin","when_to_use":"","observed_at":"2026-01-15T12:00:00Z","valid_from":"2026-01-15T12:00:00Z","valid_to":"2026-01-15T12:05:00Z","superseded_by":"sold","created_at":"2026-01-15T12:00:00Z","updated_at":"2026-01-15T12:00:00Z","revision":2,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', '', NULL, 'user', '2026-01-15T12:00:00Z');
INSERT INTO events VALUES (5, 1, 'sold', 'add', NULL, '{"memory_id":"sold","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"She sold her violin","when_to_use":"","observed_at":"2026-01-15T12:05:00Z","valid_from":"2026-01-15T12:05:00Z","valid_to":null,"superseded_by":null,"created_at":"2026-01-15T12:05:00Z","updated_at":"2026-01-15T12:05:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', '', NULL, 'user', '2026-01-15T12:00:00Z');
INSERT INTO events VALUES (6, 1, 'rome', 'add', NULL, '{"memory_id":"rome","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"She took a trip to Rome","when_to_use":"","observed_at":"2026-01-15T12:06:00Z","valid_from":"2023-06-12T00:00:00Z","valid_to":"2023-06-18T00:00:00Z","superseded_by":null,"created_at":"2026-01-15T12:06:00Z","updated_at":"2026-01-15T12:06:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', '', NULL, 'user', '2026-01-15T12:00:00Z');
INSERT INTO events VALUES (7, 1, 'opening', 'add', NULL, '{"memory_id":"opening","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"The opening night of the studio","when_to_use":"","observed_at":"2026-01-15T12:07:00Z","valid_from":"2031-06-20T00:00:00Z","valid_to":"2031-06-21T00:00:00Z","superseded_by":null,"created_at":"2026-01-15T12:07:00Z","updated_at":"2026-01-15T12:07:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', '', NULL, 'user', '2026-01-15T12:00:00Z');
INSERT INTO events VALUES (8, 1, 'acme then', 'add', NULL, '{"memory_id":"acme then","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"She works at Acme","when_to_use":"","observed_at":"2026-01-15T12:09:00Z","valid_from":"2015-01-01T00:00:00Z","valid_to":"2019-01-01T00:00:00Z","superseded_by":null,"created_at":"2026-01-15T12:09:00Z","updated_at":"2026-01-15T12:09:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', '', NULL, 'user', '2026-01-15T12:00:00Z');
INSERT INTO events VALUES (9, 1, 'acme now', 'add', NULL, '{"memory_id":"acme now","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"She works at Acme.","when_to_use":"","observed_at":"2026-01-15T12:08:00Z","valid_from":"2024-01-01T00:00:00Z","valid_to":null,"superseded_by":null,"created_at":"2026-01-15T12:08:00Z","updated_at":"2026-01-15T12:08:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', '', NULL, 'user', '2026-01-15T12:00:00Z');
INSERT INTO events VALUES (10, 1, 'holiday 2021', 'add', NULL, '{"memory_id":"holiday 2021","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"She is on holiday","when_to_use":"","observed_at":"2026-01-15T12:10:00Z","valid_from":"2021-07-01T00:00:00Z","valid_to":"2021-08-01T00:00:00Z","superseded_by":null,"created_at":"2026-01-15T12:10:00Z","updated_at":"2026-01-15T12:10:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', '', NULL, 'user', '2026-01-15T12:00:00Z');
INSERT INTO events VALUES (11, 1, 'holiday 2023', 'add', NULL, '{"memory_id":"holiday 2023","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"She is on holiday","when_to_use":"","observed_at":"2026-01-15T12:11:00Z","valid_from":"2023-07-01T00:00:00Z","valid_to":"2023-08-01T00:00:00Z","superseded_by":null,"created_at":"2026-01-15T12:11:00Z","updated_at":"2026-01-15T12:11:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', '', NULL, 'user', '2026-01-15T12:00:00Z');
INSERT INTO events VALUES (12, 1, 'holiday 2022', 'add', NULL, '{"memory_id":"holiday 2022","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"she is on holiday","when_to_use":"","observed_at":"2026-01-15T12:12:00Z","valid_from":"2022-07-01T00:00:00Z","valid_to":"2022-08-01T00:00:00Z","superseded_by":null,"created_at":"2026-01-15T12:12:00Z","updated_at":"2026-01-15T12:12:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', '', NULL, 'user', '2026-01-15T12:00:00Z');
INSERT INTO events VALUES (13, 1, 'flute', 'add', NULL, '{"memory_id":"flute","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"She plays the flute","when_to_use":"","observed_at":"2026-01-15T12:12:30Z","valid_from":"2010-01-01T00:00:00Z","valid_to":"2012-01-01T00:00:00Z","superseded_by":null,"created_at":"2026-01-15T12:12:30Z","updated_at":"2026-01-15T12:12:30Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{"origin":{"superseded_by":"elsewhere"}}}', '', NULL, 'user', '2026-01-15T12:00:00Z');
INSERT INTO events VALUES (14, 1, '9f292fbba3e54b4dbbf57682f3972e42', 'add', NULL, '{"memory_id":"9f292fbba3e54b4dbbf57682f3972e42","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"a walrus","when_to_use":"","observed_at":"2026-01-15T12:13:00Z","valid_from":"2026-01-15T12:13:00Z","valid_to":null,"superseded_by":null,"created_at":"2026-01-15T12:13:00Z","updated_at":"2026-01-15T12:13:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', '', NULL, 'store', '2026-01-15T12:13:00Z');
INSERT INTO events VALUES (15, 1, 'f59d99bc8a73448abea928a4f531e106', 'add', NULL, '{"memory_id":"f59d99bc8a73448abea928a4f531e106","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"a seal","when_to_use":"","observed_at":"2026-01-15T12:13:00Z","valid_from":"2026-01-15T12:13:00Z","valid_to":null,"superseded_by":null,"created_at":"2026-01-15T12:13:00Z","updated_at":"2026-01-15T12:13:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', '', NULL, 'store', '2026-01-15T12:13:00Z');
INSERT INTO events VALUES (16, 1, '5e921520a49146bf83cd3a871c02da07', 'add', NULL, '{"memory_id":"5e921520a49146bf83cd3a871c02da07","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"我喜欢乌龙茶","when_to_use":"","observed_at":"2026-01-15T12:13:00Z","valid_from":"2026-01-15T12:13:00Z","valid_to":null,"superseded_by":null,"created_at":"2026-01-15T12:13:00Z","updated_at":"2026-01-15T12:13:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', '', NULL, 'store', '2026-01-15T12:13:00Z');
INSERT INTO events VALUES (17, 1, '9f292fbba3e54b4dbbf57682f3972e42', 'supersede', '{"memory_id":"9f292fbba3e54b4dbbf57682f3972e42","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"a walrus","when_to_use":"","observed_at":"2026-01-15T12:13:00Z","valid_from":"2026-01-15T12:13:00Z","valid_to":null,"superseded_by":null,"created_at":"2026-01-15T12:13:00Z","updated_at":"2026-01-15T12:13:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', '{"memory_id":"9f292fbba3e54b4dbbf57682f3972e42","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"a walrus","when_to_use":"","observed_at":"2026-01-15T12:13:00Z","valid_from":"2026-01-15T12:13:00Z","valid_to":"2026-01-15T12:14:00Z","superseded_by":null,"created_at":"2026-01-15T12:13:00Z","updated_at":"2026-01-15T12:13:00Z","revision":2,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', '', NULL, 'user', '2026-01-15T12:00:00Z');
INSERT INTO events VALUES (18, 1, 'f59d99bc8a73448abea928a4f531e106', 'supersede', '{"memory_id":"f59d99bc8a73448abea928a4f531e106","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"a seal","when_to_use":"","observed_at":"2026-01-15T12:13:00Z","valid_from":"2026-01-15T12:13:00Z","valid_to":null,"superseded_by":null,"created_at":"2026-01-15T12:13:00Z","updated_at":"2026-01-15T12:13:00Z","revision":1,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', '{"memory_id":"f59d99bc8a73448abea928a4f531e106","memory_space":"space","user_id":"alice","memory_type":"personal","memory_target":"self","content":"a seal","when_to_use":"","observed_at":"2026-01-15T12:13:00Z","valid_from":"2026-01-15T12:13:00Z","valid_to":"2026-01-15T12:14:00Z","superseded_by":"sold","created_at":"2026-01-15T12:13:00Z","updated_at":"2026-01-15T12:13:00Z","revision":2,"author":"user","importance":0.5,"confidence":1.0,"freq":0,"utility":0.0,"sources":[],"metadata":{}}', '', NULL, 'user', '2026-01-15T12:00:00Z');
INSERT INTO changes VALUES (1, 1, 3, 1);
INSERT INTO changes VALUES (2, 1, 3, 2);
INSERT INTO changes VALUES (3, 1, 3, 3);
INSERT INTO changes VALUES (4, 1, 3, 1);
INSERT INTO changes VALUES (5, 1, 3, 4);
INSERT INTO changes VALUES (6, 1, 3, 5);
INSERT INTO changes VALUES (7, 1, 3, 6);
INSERT INTO changes VALUES (8, 1, 3, 7);
INSERT INTO changes VALUES (9, 1, 3, 8);
INSERT INTO changes VALUES (10, 1, 3, 9);
INSERT INTO changes VALUES (11, 1, 3, 10);
INSERT INTO changes VALUES (12, 1, 3, 11);
INSERT INTO changes VALUES (13, 1, 3, 12);
INSERT INTO changes VALUES (14, 1, 3, 13);
INSERT INTO changes VALUES (15, 1, 3, 13);
INSERT INTO changes VALUES (16, 1, 3, 14);
INSERT INTO changes VALUES (17, 1, 3, 14);
INSERT INTO changes VALUES (18, 1, 3, 15);
INSERT INTO changes VALUES (19, 1, 3, 15);
INSERT INTO changes VALUES (20, 1, 3, 13);
INSERT INTO changes VALUES (21, 1, 3, 14);
INSERT INTO changes VALUES (22, 1, 1, 1);
INSERT INTO changes VALUES (23, 1, 1, 2);
INSERT INTO changes VALUES (24, 1, 1, 3);
INSERT INTO changes VALUES (25, 1, 2, 1);
INSERT INTO jobs VALUES (1, 1, 'j1', X'B96BC386AE281504D1BEA78ED399E04D', 'work', 'pending', 1768478400000000, 1768478400000000, '{"job_id":"j1","kind":"work","payload":{},"run_id":"run of j1","state":"pending","attempts":0,"created_at":"2026-01-15T12:00:00Z","due_at":"2026-01-15T12:00:00Z","owner":null,"held_until":null,"error":"","raw":""}');
INSERT INTO offloads VALUES (1, 1, 2, 'held', 'text', NULL, X'DE68432D09E6CC135776A1BB0296BDEA9CCB95ED31297C182E6ABE68D9239229', 1768478400000000, 1768478400000000, 26, '{"reference":"held","session_id":"session","kind":"text","name":null,"message_id":null,"place":null,"message_ids":[],"chars":22,"lines":1,"bytes":26,"created_at":"2026-01-15T12:00:00Z","said_at":null}', 'what a tool said of 海象');
INSERT INTO offload_passages VALUES (1, 1, 1, 0, 22, 1);
INSERT INTO tool_calls VALUES (1, 1, 'c1', 'search', 1768478400000000, 1, NULL, NULL, NULL, '{"call_id":"c1","create_time":"2026-01-15T12:00:00Z","tool_name":"search","input":{"query":"walrus"},"output":"found","token_cost":null,"success":true,"time_cost":null,"message_ids":[],"metadata":{}}');
INSERT INTO item_namespaces VALUES (1, 'space', 'memories.alice.personal.');
INSERT INTO item_namespaces VALUES (2, 'space', 'docs.a.');
INSERT INTO items VALUES (1, 1, 'k', 1768479180000000, 1768479180000001, NULL, NULL, 13, '{"text": "a walrus"}');
INSERT INTO items VALUES (2, 1, 'l', 1768479180000000, 1768479180000001, NULL, NULL, 14, '{"text": "a seal"}');
INSERT INTO items VALUES (3, 1, 'm', 1768479180000000, 1768479180000000, NULL, NULL, 15, '{"text": "我喜欢乌龙茶"}');
INSERT INTO items VALUES (4, 2, 'n', 1768479180000000, 1768479180000000, NULL, NULL, NULL, '{"n": 1}');
INSERT INTO item_vectors VALUES (1, 1, X'00000000000000000000000000000000000000000000803F0000000000000000');
INSERT INTO item_vectors VALUES (2, 2, X'0000000000000000000000000000000000000000000000000000803F00000000');
INSERT INTO item_vectors VALUES (3, 3, X'000000000000000000000000000000000000000000000000000000000000803F');
INSERT INTO item_changes VALUES (1, 1, 1);
INSERT INTO item_changes VALUES (2, 1, 2);
INSERT INTO item_changes VALUES (3, 1, 3);
INSERT INTO item_changes VALUES (4, 1, 1);
INSERT INTO item_changes VALUES (5, 1, 2);
INSERT INTO message_words (rowid, scope, words) VALUES (1, 's1', 'play violin');
INSERT INTO message_words (rowid, scope, words) VALUES (2, 's1', '她在 在周 周末 末打 打网 网球 她 在 周 末 打 网 球');
INSERT INTO message_words (rowid, scope, words) VALUES (3, 's1', 'next');
INSERT INTO memory_words (rowid, scope, words) VALUES (1, 's1', 'play violin');
INSERT INTO memory_words (rowid, scope, words) VALUES (2, 's1', '我喜 喜欢 欢乌 乌龙 龙茶 我 喜 欢 乌 龙 茶');
INSERT INTO memory_words (rowid, scope, words) VALUES (3, 's1', 'person ann personal/ann memori person ann');
INSERT INTO memory_words (rowid, scope, words) VALUES (4, 's1', 'sell violin');
INSERT INTO memory_words (rowid, scope, words) VALUES (5, 's1', 'take trip rome');
INSERT INTO memory_words (rowid, scope, words) VALUES (6, 's1', 'open night studio');
INSERT INTO memory_words (rowid, scope, words) VALUES (7, 's1', 'work acm');
INSERT INTO memory_words (rowid, scope, words) VALUES (8, 's1', 'work acm');
INSERT INTO memory_words (rowid, scope, words) VALUES (9, 's1', 'holiday');
INSERT INTO memory_words (rowid, scope, words) VALUES (10, 's1', 'holiday');
INSERT INTO memory_words (rowid, scope, words) VALUES (11, 's1', 'holiday');
INSERT INTO memory_words (rowid, scope, words) VALUES (12, 's1', 'play flute');
INSERT INTO memory_words (rowid, scope, words) VALUES (13, 's1', 'walrus');
INSERT INTO memory_words (rowid, scope, words) VALUES (14, 's1', 'seal');
INSERT INTO memory_words (rowid, scope, words) VALUES (15, 's1', '我喜 喜欢 欢乌 乌龙 龙茶 我 喜 欢 乌 龙 茶');
INSERT INTO offload_words (rowid, scope, words) VALUES (1, 's1', 'tool say 海象 海 象');
PRAGMA application_id = 1382370661;
PRAGMA user_version = 5;
