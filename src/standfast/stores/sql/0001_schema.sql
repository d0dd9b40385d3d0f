-- The first schema. Rowid tables with a UNIQUE index: faster and smaller than WITHOUT ROWID for rows of 2 KB.

-- A run as the last verb or transition left it; how far its steps have got is in the newest row of its record.
-- `seq` and `head` are that row's at the time: a record that was cut off before them is found.
CREATE TABLE runs (
    n         INTEGER PRIMARY KEY,
    id        TEXT    NOT NULL UNIQUE,
    agent     TEXT    NOT NULL,
    status    TEXT    NOT NULL,
    seq       INTEGER NOT NULL,
    head      BLOB    NOT NULL,
    fence     INTEGER NOT NULL,
    epoch     INTEGER NOT NULL,
    holder    TEXT,
    doc       TEXT    NOT NULL,
    parent    TEXT,
    created   REAL    NOT NULL,
    wake_at   REAL,
    needs     INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX runs_live ON runs (status, agent) WHERE status NOT IN ('cancelled', 'done', 'failed', 'paused');
CREATE INDEX runs_parent ON runs (parent) WHERE parent IS NOT NULL;
CREATE INDEX runs_holder ON runs (holder) WHERE holder IS NOT NULL;
CREATE INDEX runs_wake ON runs (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX runs_needs ON runs (needs) WHERE needs > 0;

-- The record: one row a commit of a run, hash-chained. `body` is two lines of JSON: the events, and how far
-- the run has got with them, and a third one, if rows of logs were written, with their digests; `state` is the
-- snapshot before step `step`, if the commit made one.
CREATE TABLE record (
    run   INTEGER NOT NULL,
    seq   INTEGER NOT NULL,
    at    REAL    NOT NULL,
    body  BLOB    NOT NULL,
    step  INTEGER,
    state BLOB,
    hash  BLOB    NOT NULL,
    UNIQUE (run, seq)
);

-- Journal, questions and undo ledger: a row for each call that is not covered by a later snapshot,
-- and for each effect for as long as it may have to be undone. `n` is the order of admission.
CREATE TABLE calls (
    n       INTEGER PRIMARY KEY AUTOINCREMENT,
    run     INTEGER NOT NULL,
    id      TEXT    NOT NULL,
    epoch   INTEGER NOT NULL,
    step    INTEGER NOT NULL,
    status  TEXT    NOT NULL,
    effect  TEXT    NOT NULL,
    settles TEXT    NOT NULL,
    undo    TEXT,
    doc     TEXT    NOT NULL,
    args    BLOB    NOT NULL,
    before  BLOB,
    result  BLOB,
    UNIQUE (run, id)
);

-- Redirects and messages.
CREATE TABLE mail (
    n      INTEGER PRIMARY KEY,
    run    INTEGER NOT NULL,
    id     TEXT    NOT NULL UNIQUE,
    status TEXT    NOT NULL,
    doc    TEXT    NOT NULL
);
CREATE INDEX mail_run ON mail (run, status);

-- Rows of append-only logs; a snapshot holds only (log, length).
CREATE TABLE logs (
    log  TEXT    NOT NULL,
    idx  INTEGER NOT NULL,
    body BLOB    NOT NULL,
    UNIQUE (log, idx)
);

-- What a verb answered to a request id, so that a repeated request gets the same answer.
CREATE TABLE requests (
    id     TEXT PRIMARY KEY,
    run    TEXT NOT NULL,
    verb   TEXT NOT NULL,
    answer TEXT NOT NULL,
    at     REAL NOT NULL
);

-- One row a driving process; the counter rises while it lives.
CREATE TABLE leases (
    id      TEXT PRIMARY KEY,
    counter INTEGER NOT NULL,
    boot    TEXT NOT NULL,
    pid     INTEGER NOT NULL,
    started TEXT NOT NULL,
    agents  TEXT NOT NULL
);

-- What agents promise: state, tool and result schemas, so that a process without their code can validate.
CREATE TABLE contracts (
    id    TEXT PRIMARY KEY,
    agent TEXT NOT NULL,
    doc   TEXT NOT NULL
);

-- A hint to other processes that a run has been touched by a verb.
CREATE TABLE signals (
    n   INTEGER PRIMARY KEY AUTOINCREMENT,
    run TEXT NOT NULL
);
