-- What a collector keeps on PostgreSQL, witness included. A new schema walks every step, an older one those it lacks;
-- a step never changes. Order is by bytes everywhere: ids are compared as SQLite and Python compare them.

-- version 1
CREATE TABLE invocation (
  project_uuid TEXT COLLATE "C" NOT NULL, invocation_id TEXT COLLATE "C" NOT NULL, status TEXT COLLATE "C" NOT NULL,
  profile_id TEXT COLLATE "C", action TEXT COLLATE "C", request TEXT COLLATE "C", actor_id TEXT COLLATE "C",
  actor_type TEXT COLLATE "C", level TEXT COLLATE "C" NOT NULL, started_at TEXT COLLATE "C",
  completed_at TEXT COLLATE "C", outcome TEXT COLLATE "C", received_at TEXT COLLATE "C" NOT NULL,
  digest TEXT COLLATE "C" NOT NULL, state TEXT COLLATE "C" NOT NULL,
  -- The id under another name, which the indexes of filters have and the primary key has not: a planner that thinks two
  -- frequent values often meet could otherwise walk the primary key to the end, looking for a page of what never meets.
  ordinal TEXT COLLATE "C" GENERATED ALWAYS AS (invocation_id) STORED,
  PRIMARY KEY (invocation_id, project_uuid)
);
CREATE TABLE event (
  invocation_id TEXT COLLATE "C" NOT NULL, project_uuid TEXT COLLATE "C" NOT NULL, phase TEXT COLLATE "C" NOT NULL,
  received_at TEXT COLLATE "C" NOT NULL, body TEXT COLLATE "C" NOT NULL, client TEXT COLLATE "C" NOT NULL,
  digest TEXT COLLATE "C" NOT NULL, arrival BIGINT GENERATED ALWAYS AS IDENTITY,
  PRIMARY KEY (invocation_id, project_uuid, phase)
);
CREATE TABLE conflict (
  project_uuid TEXT COLLATE "C" NOT NULL, invocation_id TEXT COLLATE "C" NOT NULL, phase TEXT COLLATE "C" NOT NULL,
  held_sha256 TEXT COLLATE "C" NOT NULL, sent_sha256 TEXT COLLATE "C" NOT NULL, first_at TEXT COLLATE "C" NOT NULL,
  last_at TEXT COLLATE "C" NOT NULL, times BIGINT NOT NULL, client TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (invocation_id, project_uuid, phase, sent_sha256)
);
CREATE TABLE actor (actor_id TEXT COLLATE "C" PRIMARY KEY, folded TEXT COLLATE "C" NOT NULL);
CREATE TABLE totals (
  project_uuid TEXT COLLATE "C" PRIMARY KEY, invocations BIGINT NOT NULL, open BIGINT NOT NULL, events BIGINT NOT NULL,
  conflicts BIGINT NOT NULL
);
CREATE TABLE placement (project_uuid TEXT COLLATE "C" PRIMARY KEY, shard TEXT COLLATE "C" NOT NULL);
CREATE TABLE shard (name TEXT COLLATE "C" PRIMARY KEY);
INSERT INTO shard VALUES (replace(gen_random_uuid()::text, '-', ''));
CREATE FUNCTION instr(TEXT, TEXT) RETURNS INTEGER LANGUAGE SQL IMMUTABLE AS 'SELECT strpos($1, $2)';
CREATE TABLE token (
  id TEXT COLLATE "C" PRIMARY KEY, digest TEXT COLLATE "C" NOT NULL UNIQUE, name TEXT COLLATE "C" NOT NULL,
  scopes TEXT COLLATE "C" NOT NULL, projects TEXT COLLATE "C" NOT NULL, rate BIGINT,
  created_at TEXT COLLATE "C" NOT NULL, revoked_at TEXT COLLATE "C"
);
CREATE TABLE own (name TEXT COLLATE "C" PRIMARY KEY, seed BYTEA NOT NULL);
CREATE TABLE logs (
  origin TEXT COLLATE "C" PRIMARY KEY, keys TEXT COLLATE "C" NOT NULL, owner TEXT COLLATE "C" NOT NULL,
  note TEXT COLLATE "C"
);
CREATE TABLE forks (
  origin TEXT COLLATE "C", held TEXT COLLATE "C", sent TEXT COLLATE "C", at BIGINT, PRIMARY KEY (origin, held, sent)
);
-- include indexes

-- version 2
-- Whole records and the logs they stand in, of projects that send them.
ALTER TABLE totals ADD COLUMN records BIGINT NOT NULL DEFAULT 0;
ALTER TABLE totals ADD COLUMN revision BIGINT NOT NULL DEFAULT 0;
CREATE TABLE record (
  project_uuid TEXT COLLATE "C" NOT NULL, invocation_id TEXT COLLATE "C" NOT NULL, received_at TEXT COLLATE "C" NOT NULL,
  client TEXT COLLATE "C" NOT NULL, report TEXT COLLATE "C" NOT NULL, body TEXT COLLATE "C" NOT NULL,
  digest TEXT COLLATE "C" NOT NULL, PRIMARY KEY (project_uuid, invocation_id)
);
CREATE TABLE log (
  project_uuid TEXT COLLATE "C" NOT NULL, name TEXT COLLATE "C" NOT NULL, client TEXT COLLATE "C" NOT NULL,
  keys TEXT COLLATE "C" NOT NULL, checkpoint TEXT COLLATE "C" NOT NULL, size BIGINT NOT NULL,
  PRIMARY KEY (project_uuid, name)
);
CREATE TABLE leaves (
  project_uuid TEXT COLLATE "C" NOT NULL, name TEXT COLLATE "C" NOT NULL, start BIGINT NOT NULL,
  body TEXT COLLATE "C" NOT NULL, PRIMARY KEY (project_uuid, name, start)
);

-- version 3
-- Objects that records lead to; body is NULL until one came. How many leaves a log's right edge is of, and the edge.
ALTER TABLE totals ADD COLUMN whole BIGINT NOT NULL DEFAULT 0;
ALTER TABLE totals ADD COLUMN objects BIGINT NOT NULL DEFAULT 0;
ALTER TABLE totals ADD COLUMN missing BIGINT NOT NULL DEFAULT 0;
UPDATE totals SET whole = records;
ALTER TABLE log ADD COLUMN edge TEXT COLLATE "C" NOT NULL DEFAULT '';
CREATE TABLE object (
  project_uuid TEXT COLLATE "C" NOT NULL, digest TEXT COLLATE "C" NOT NULL, body TEXT COLLATE "C", PRIMARY KEY (project_uuid, digest)
);
CREATE TABLE log_conflict (
  project_uuid TEXT COLLATE "C" NOT NULL, name TEXT COLLATE "C" NOT NULL, client TEXT COLLATE "C" NOT NULL, digest TEXT COLLATE "C" NOT NULL,
  verdict TEXT COLLATE "C" NOT NULL, held TEXT COLLATE "C" NOT NULL, sent TEXT COLLATE "C" NOT NULL, first_at TEXT COLLATE "C" NOT NULL,
  last_at TEXT COLLATE "C" NOT NULL, times BIGINT NOT NULL, PRIMARY KEY (project_uuid, name, client, digest)
);
-- A signed state is longer than an entry of an ordinary index may be.
ALTER TABLE forks DROP CONSTRAINT forks_pkey;
ALTER TABLE forks ADD CONSTRAINT forks_once EXCLUDE USING hash ((origin || held || sent) WITH =);

-- version 4
-- When a token ends, and the hour in which it was used last.
ALTER TABLE token ADD COLUMN expires_at TEXT COLLATE "C";
ALTER TABLE token ADD COLUMN last_used_at TEXT COLLATE "C";

-- version 5
-- What projects order of records: values erased, holds. One order is one annex of the record, under its file's name.
CREATE TABLE record_order (
  project_uuid TEXT COLLATE "C" NOT NULL, invocation_id TEXT COLLATE "C" NOT NULL, file TEXT COLLATE "C" NOT NULL,
  received_at TEXT COLLATE "C" NOT NULL, client TEXT COLLATE "C" NOT NULL, body TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (invocation_id, project_uuid, file)
);
