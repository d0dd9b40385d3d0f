-- Stops as evidence: what concerns the store as a whole, and what proves that nothing was changed afterwards.

-- A row whose content was deleted keeps its place in the chain by the digests of what it held (body, then state).
ALTER TABLE record ADD COLUMN gone BLOB;

-- The record of the house: rights, refused attempts, halts, exports. Chained like the record of a run.
CREATE TABLE house (
    seq  INTEGER PRIMARY KEY,
    at   REAL    NOT NULL,
    body BLOB    NOT NULL,
    hash BLOB    NOT NULL
);

-- An operator's halt holds from its row on until `lifted`; `doc` says what it matches, `signature` is over `doc`.
CREATE TABLE halts (
    n         INTEGER PRIMARY KEY,
    id        TEXT    NOT NULL UNIQUE,
    doc       BLOB    NOT NULL,
    key       BLOB,
    signature BLOB,
    lifted    REAL
);
CREATE INDEX halts_holding ON halts (n) WHERE lifted IS NULL;

-- A halt and its lifting look at paused runs too, which no other index knows.
CREATE INDEX runs_paused ON runs (agent) WHERE status = 'paused';

-- Who may do what: only a hash of each token is kept.
CREATE TABLE tokens (
    id      TEXT PRIMARY KEY,
    hash    BLOB NOT NULL UNIQUE,
    doc     TEXT NOT NULL,
    expires REAL,
    revoked REAL
);

-- Signed statements of where the records stood; `doc` names the heads and the checkpoint before it.
CREATE TABLE checkpoints (
    n         INTEGER PRIMARY KEY,
    at        REAL    NOT NULL,
    doc       BLOB    NOT NULL,
    key       BLOB    NOT NULL,
    signature BLOB    NOT NULL
);
