-- What a witness remembers, in a SQLite file of its own.

-- version 1
CREATE TABLE IF NOT EXISTS own (name TEXT PRIMARY KEY, seed BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS logs (origin TEXT PRIMARY KEY, keys TEXT NOT NULL, owner TEXT NOT NULL, note TEXT);
CREATE TABLE IF NOT EXISTS forks (origin TEXT, held TEXT, sent TEXT, at INTEGER, PRIMARY KEY (origin, held, sent));
