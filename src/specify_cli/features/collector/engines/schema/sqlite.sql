-- What a collector keeps on SQLite. A new database walks every step, an older one those it lacks; a step never changes.

-- version 1
CREATE TABLE invocation (
  project_uuid TEXT NOT NULL, invocation_id TEXT NOT NULL, status TEXT NOT NULL, profile_id TEXT, action TEXT,
  request TEXT, actor_id TEXT, actor_type TEXT, level TEXT NOT NULL, started_at TEXT, completed_at TEXT, outcome TEXT,
  received_at TEXT NOT NULL, PRIMARY KEY (invocation_id, project_uuid)
) WITHOUT ROWID;
CREATE TABLE event (
  invocation_id TEXT NOT NULL, project_uuid TEXT NOT NULL, phase TEXT NOT NULL, received_at TEXT NOT NULL,
  body TEXT NOT NULL, UNIQUE (invocation_id, project_uuid, phase)
);
CREATE TABLE conflict (
  id INTEGER PRIMARY KEY, project_uuid TEXT NOT NULL, invocation_id TEXT NOT NULL, phase TEXT NOT NULL,
  held_sha256 TEXT NOT NULL, sent_sha256 TEXT NOT NULL, first_at TEXT NOT NULL, last_at TEXT NOT NULL,
  times INTEGER NOT NULL, UNIQUE (invocation_id, project_uuid, phase, sent_sha256)
);
CREATE TABLE actor (actor_id TEXT PRIMARY KEY, folded TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE totals (invocations INTEGER NOT NULL, open INTEGER NOT NULL, events INTEGER NOT NULL,
                     conflicts INTEGER NOT NULL);
INSERT INTO totals VALUES (0, 0, 0, 0);
CREATE INDEX by_project ON invocation (project_uuid, invocation_id);
CREATE INDEX by_profile ON invocation (profile_id, invocation_id, project_uuid);
CREATE INDEX by_action ON invocation (action, invocation_id, project_uuid);
CREATE INDEX by_outcome ON invocation (outcome, invocation_id, project_uuid);
CREATE INDEX by_actor ON invocation (actor_id, invocation_id, project_uuid);
CREATE INDEX by_status ON invocation (status, invocation_id, project_uuid);

-- version 2
-- Who sent what, and digests by which a damaged page is noticed. Older rows have neither.
ALTER TABLE invocation ADD COLUMN digest TEXT NOT NULL DEFAULT '';
ALTER TABLE event ADD COLUMN client TEXT NOT NULL DEFAULT '';
ALTER TABLE event ADD COLUMN digest TEXT NOT NULL DEFAULT '';
ALTER TABLE conflict ADD COLUMN client TEXT NOT NULL DEFAULT '';

-- version 3
-- Totals for each project; status and outcome are one column, and each pair of filters has an index; shards; tokens.
DROP INDEX by_outcome;
DROP INDEX by_status;
DROP INDEX by_project;
DROP INDEX by_profile;
DROP INDEX by_action;
DROP INDEX by_actor;
-- The id under another name, as on PostgreSQL, where it keeps the planner from walking the primary key.
ALTER TABLE invocation ADD COLUMN ordinal TEXT GENERATED ALWAYS AS (invocation_id) VIRTUAL;
ALTER TABLE invocation ADD COLUMN state TEXT NOT NULL DEFAULT '';
UPDATE invocation SET state = CASE status WHEN 'open' THEN 'open' ELSE coalesce(outcome, 'closed') END;
ALTER TABLE conflict RENAME TO older_conflict;
CREATE TABLE conflict (
  project_uuid TEXT NOT NULL, invocation_id TEXT NOT NULL, phase TEXT NOT NULL, held_sha256 TEXT NOT NULL,
  sent_sha256 TEXT NOT NULL, first_at TEXT NOT NULL, last_at TEXT NOT NULL, times INTEGER NOT NULL,
  client TEXT NOT NULL, PRIMARY KEY (invocation_id, project_uuid, phase, sent_sha256)
) WITHOUT ROWID;
INSERT INTO conflict
  SELECT project_uuid, invocation_id, phase, held_sha256, sent_sha256, first_at, last_at, times, client
  FROM older_conflict;
DROP TABLE older_conflict;
DROP TABLE totals;
CREATE TABLE totals (
  project_uuid TEXT PRIMARY KEY, invocations INTEGER NOT NULL, open INTEGER NOT NULL, events INTEGER NOT NULL,
  conflicts INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO totals
  SELECT p.project_uuid,
    (SELECT count(*) FROM invocation i WHERE i.project_uuid = p.project_uuid),
    (SELECT count(*) FROM invocation i WHERE i.project_uuid = p.project_uuid AND i.state = 'open'),
    (SELECT count(*) FROM event e WHERE e.project_uuid = p.project_uuid),
    (SELECT count(*) FROM conflict c WHERE c.project_uuid = p.project_uuid)
  FROM (SELECT DISTINCT project_uuid FROM invocation) p;
CREATE TABLE placement (project_uuid TEXT PRIMARY KEY, shard TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE shard (name TEXT PRIMARY KEY);
INSERT INTO shard VALUES (lower(hex(randomblob(16))));
CREATE TABLE token (
  id TEXT PRIMARY KEY, digest TEXT NOT NULL UNIQUE, name TEXT NOT NULL, scopes TEXT NOT NULL, projects TEXT NOT NULL,
  rate INTEGER, created_at TEXT NOT NULL, revoked_at TEXT
);
-- include indexes

-- version 4
-- Whole records and the logs they stand in, of projects that send them.
ALTER TABLE totals ADD COLUMN records INTEGER NOT NULL DEFAULT 0;
ALTER TABLE totals ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;
CREATE TABLE record (
  project_uuid TEXT NOT NULL, invocation_id TEXT NOT NULL, received_at TEXT NOT NULL, client TEXT NOT NULL,
  report TEXT NOT NULL, body TEXT NOT NULL, digest TEXT NOT NULL, PRIMARY KEY (project_uuid, invocation_id)
);
CREATE TABLE log (
  project_uuid TEXT NOT NULL, name TEXT NOT NULL, client TEXT NOT NULL, keys TEXT NOT NULL, checkpoint TEXT NOT NULL,
  size INTEGER NOT NULL, PRIMARY KEY (project_uuid, name)
) WITHOUT ROWID;
CREATE TABLE leaves (
  project_uuid TEXT NOT NULL, name TEXT NOT NULL, start INTEGER NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (project_uuid, name, start)
);

-- version 5
-- Objects that records lead to; body is NULL until one came. How many leaves a log's right edge is of, and the edge.
ALTER TABLE totals ADD COLUMN whole INTEGER NOT NULL DEFAULT 0;
ALTER TABLE totals ADD COLUMN objects INTEGER NOT NULL DEFAULT 0;
ALTER TABLE totals ADD COLUMN missing INTEGER NOT NULL DEFAULT 0;
UPDATE totals SET whole = records;
ALTER TABLE log ADD COLUMN edge TEXT NOT NULL DEFAULT '';
CREATE TABLE object (
  project_uuid TEXT NOT NULL, digest TEXT NOT NULL, body TEXT, PRIMARY KEY (project_uuid, digest)
);
CREATE TABLE log_conflict (
  project_uuid TEXT NOT NULL, name TEXT NOT NULL, client TEXT NOT NULL, digest TEXT NOT NULL,
  verdict TEXT NOT NULL, held TEXT NOT NULL, sent TEXT NOT NULL, first_at TEXT NOT NULL,
  last_at TEXT NOT NULL, times INTEGER NOT NULL, PRIMARY KEY (project_uuid, name, client, digest)
);

-- version 6
-- When a token ends, and the hour in which it was used last.
ALTER TABLE token ADD COLUMN expires_at TEXT;
ALTER TABLE token ADD COLUMN last_used_at TEXT;

-- version 7
-- Rows are found by words (words.py) and no more by fifteen indexes, each of which wrote a page of its own for a row.
-- This step may run again: it makes the words of all rows anew.
DROP INDEX IF EXISTS by_project;
DROP INDEX IF EXISTS by_profile;
DROP INDEX IF EXISTS by_action;
DROP INDEX IF EXISTS by_state;
DROP INDEX IF EXISTS by_actor;
DROP INDEX IF EXISTS by_project_profile;
DROP INDEX IF EXISTS by_project_action;
DROP INDEX IF EXISTS by_project_state;
DROP INDEX IF EXISTS by_project_actor;
DROP INDEX IF EXISTS by_profile_action;
DROP INDEX IF EXISTS by_profile_state;
DROP INDEX IF EXISTS by_profile_actor;
DROP INDEX IF EXISTS by_action_state;
DROP INDEX IF EXISTS by_action_actor;
DROP INDEX IF EXISTS by_state_actor;
DROP TABLE IF EXISTS word;
CREATE VIRTUAL TABLE word USING fts5 (words, content='', detail=none, columnsize=0, tokenize='ascii');
-- Small pages: the piece of a small batch is small, and what a list skips is.
INSERT INTO word (word, rank) VALUES ('pgsz', 1000);
INSERT INTO word (rowid, words)
  SELECT place_of(invocation_id), group_concat(list_words(project_uuid, profile_id, action, actor_id, state), ' ')
  FROM invocation GROUP BY 1 ORDER BY 1;

-- version 8
-- What projects order of records: values erased, holds. One order is one annex of the record, under its file's name.
CREATE TABLE IF NOT EXISTS record_order (
  project_uuid TEXT NOT NULL, invocation_id TEXT NOT NULL, file TEXT NOT NULL, received_at TEXT NOT NULL,
  client TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (invocation_id, project_uuid, file)
);
