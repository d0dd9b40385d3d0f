-- name: run_by_id
-- A run by its public id, with the newest row of its record.
SELECT n, id, agent, status, r.seq, r.hash, fence, epoch, holder, doc, parent, created, wake_at, r.body, r.gone
FROM runs LEFT JOIN record r ON r.run = n AND r.seq = (SELECT max(seq) FROM record WHERE run = n) WHERE id = ?;

-- name: run_by_n
-- A run by its row number, with the newest row of its record.
SELECT n, id, agent, status, r.seq, r.hash, fence, epoch, holder, doc, parent, created, wake_at, r.body, r.gone
FROM runs LEFT JOIN record r ON r.run = n AND r.seq = (SELECT max(seq) FROM record WHERE run = n) WHERE n = ?;

-- name: runs_by_id
-- Many runs by their public ids, each with the newest row of its record.
SELECT n, id, agent, status, r.seq, r.hash, fence, epoch, holder, doc, parent, created, wake_at, r.body, r.gone
FROM runs LEFT JOIN record r ON r.run = n AND r.seq = (SELECT max(seq) FROM record WHERE run = n)
WHERE id IN (SELECT value FROM json_each(?));

-- name: insert_run
-- A new run; its record begins with the row that follows in the same transaction.
INSERT INTO runs (id, agent, status, seq, head, fence, epoch, holder, doc, parent, created, wake_at, needs)
VALUES (?, ?, ?, 0, ?, ?, ?, ?, ?, ?, ?, ?, 0);

-- name: save_run
-- Everything of a run that was read in this transaction. An open question needs someone whatever the run does beside it.
UPDATE runs SET status = ?, seq = ?, head = ?, fence = ?, epoch = ?, holder = ?, doc = ?, wake_at = ?,
needs = ? OR (? NOT IN ('cancelled', 'done', 'failed') AND EXISTS (
    SELECT 1 FROM calls WHERE calls.run = runs.n AND calls.status = 'asking' AND calls.undo IS NULL))
WHERE n = ?;

-- name: anchor
-- Where the record was at the last verb or transition.
SELECT seq, head FROM runs WHERE n = ?;

-- name: last_seq
-- Where the record is now.
SELECT max(seq) FROM record WHERE run = ?;

-- name: save_doc
-- The document of a run whose row was just advanced in this transaction. A run with an open question still needs
-- someone; calls are searched only if it needed someone before, since driving a run opens no question by this way.
UPDATE runs SET doc = ?, needs = CASE
    WHEN ? THEN 1
    WHEN needs = 0 OR status IN ('cancelled', 'done', 'failed') THEN 0
    ELSE EXISTS (SELECT 1 FROM calls WHERE calls.run = runs.n AND calls.status = 'asking' AND calls.undo IS NULL) END
WHERE n = ?;

-- name: append
-- One commit's events, chained to what was there: loses (0 rows) to any verb, mail or other driver that came first.
INSERT INTO record (run, seq, at, body, step, state, hash)
SELECT ?, ?, ?, ?, ?, ?, ?
WHERE coalesce((SELECT max(seq) FROM record WHERE run = ?), 0) = ? AND (SELECT fence FROM runs WHERE n = ?) = ?;

-- name: append_read
-- The same for a run that was read in this transaction, whoever's it is.
INSERT INTO record (run, seq, at, body, step, state, hash)
SELECT ?, ?, ?, ?, ?, ?, ?
WHERE coalesce((SELECT max(seq) FROM record WHERE run = ?), 0) = ?;

-- name: record_after
-- The record of a run after a seq, oldest first.
SELECT seq, at, body, step, state, hash, gone FROM record WHERE run = ? AND seq > ? ORDER BY seq LIMIT ?;

-- name: record_of_all
-- The records of all runs in the order of their commits, after a row; {labels} says which runs are wanted.
SELECT r.rowid, u.id, CASE WHEN {labels} THEN r.body END
FROM record r JOIN runs u ON u.n = r.run WHERE r.rowid > ? ORDER BY r.rowid LIMIT ?;

-- name: last_record
-- The newest row of all records.
SELECT coalesce(max(rowid), 0) FROM record;

-- name: record_row
-- One row of the record.
SELECT seq, at, body, step, state, hash, gone FROM record WHERE run = ? AND seq = ?;

-- name: record_before
-- The row of the record before a seq.
SELECT seq, at, body, step, state, hash, gone FROM record WHERE run = ? AND seq < ? ORDER BY seq DESC LIMIT 1;

-- name: snapshot_of_step
-- The newest snapshot of a step up to a seq.
SELECT seq, state FROM record WHERE run = ? AND seq <= ? AND step = ? AND state IS NOT NULL ORDER BY seq DESC LIMIT 1;

-- name: insert_call
-- A call: admitted, asked about, or ended.
INSERT INTO calls (run, id, epoch, step, status, effect, settles, undo, doc, args, before, result)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: update_call
-- What became of a call.
UPDATE calls SET status = ?, undo = ?, doc = ?, args = ?, before = ?, result = ? WHERE run = ? AND id = ?;

-- name: call_by_id
-- One call of a run.
SELECT n, run, id, epoch, step, status, effect, settles, undo, doc, args, before, result FROM calls WHERE run = ? AND id = ?;

-- name: move_step
-- What the agent did in a step, without what a person did in it, belongs to another step.
UPDATE calls SET step = ? WHERE run = ? AND epoch = ? AND step = ? AND coalesce(json_extract(doc, '$.person'), '') = '';

-- name: calls_of_step
-- The journal of a step, in order of admission.
SELECT n, run, id, epoch, step, status, effect, settles, undo, doc, args, before, result
FROM calls WHERE run = ? AND epoch = ? AND step = ? ORDER BY n;

-- name: calls_of_run
-- Every call row of a run, in order of admission.
SELECT n, run, id, epoch, step, status, effect, settles, undo, doc, args, before, result FROM calls WHERE run = ? ORDER BY n;

-- name: ledger
-- Effects of a run that an undo may concern, newest first.
SELECT n, run, id, epoch, step, status, effect, settles, undo, doc, args, before, result
FROM calls WHERE run = ? AND effect IN ('write', 'irreversible') ORDER BY n DESC;

-- name: at_stake
-- What a cancel would take back if it came in this step: its own effects, drafts of the run, locks; oldest first.
SELECT n, run, id, epoch, step, status, effect, settles, undo, doc, args, before, result
FROM calls
WHERE run = ? AND effect IN ('write', 'irreversible') AND undo IS NULL
  AND status IN ('started', 'finished', 'failed', 'in_doubt', 'check', 'cut')
  AND (settles <> 'step' OR (epoch = ? AND step = ?))
ORDER BY n;

-- name: open_calls
-- Calls of a run that wait for a person or a probe; the ledger decides about those that are taken back.
SELECT n, run, id, epoch, step, status, effect, settles, undo, doc, args, before, result
FROM calls WHERE run = ? AND status IN ('asking', 'in_doubt', 'check') AND undo IS NULL ORDER BY n;

-- name: insert_mail
-- A redirect or message, durable from here on.
INSERT INTO mail (run, id, status, doc) VALUES (?, ?, ?, ?);

-- name: update_mail
-- What became of a piece of mail.
UPDATE mail SET status = ?, doc = ? WHERE id = ?;

-- name: pending_mail
-- Mail that nobody has read yet, in order of arrival.
SELECT doc FROM mail WHERE run = ? AND status = 'pending' ORDER BY n;

-- name: unread_mail
-- How much mail but for these pieces nobody has read yet: pieces and bytes, without reading it.
SELECT COUNT(*), TOTAL(LENGTH(doc)) FROM mail
WHERE run = ? AND status = 'pending' AND id NOT IN (SELECT value FROM json_each(?));

-- name: mail_of_run
-- All mail of a run, in order of arrival.
SELECT doc FROM mail WHERE run = ? ORDER BY n;

-- name: append_log
-- One row of a log; a row of a step that was set back is written over.
INSERT OR REPLACE INTO logs (log, idx, body) VALUES (?, ?, ?);

-- name: read_log
-- Rows of a log.
SELECT body FROM logs WHERE log = ? AND idx >= ? AND idx < ? ORDER BY idx;

-- name: request
-- What was answered to a request id.
SELECT run, verb, answer FROM requests WHERE id = ?;

-- name: insert_request
-- Remember an answer.
INSERT INTO requests (id, run, verb, answer, at, idle) VALUES (?, ?, ?, ?, ?, ?);

-- name: prune_requests
-- Of answers to what changed nothing, the newest are kept.
DELETE FROM requests WHERE idle = 1 AND rowid <= (
    SELECT rowid FROM requests WHERE idle = 1 ORDER BY rowid DESC LIMIT 1 OFFSET ?
);

-- name: signal
-- Tell other processes that a run was touched.
INSERT INTO signals (run) VALUES (?);

-- name: signal_many
-- The same for many runs.
INSERT INTO signals (run) SELECT value FROM json_each(?);

-- name: prune_signals
-- Signals are hints; old ones are dropped.
DELETE FROM signals WHERE n <= ?;

-- name: signals_after
-- Runs touched since.
SELECT n, run FROM signals WHERE n > ? ORDER BY n;

-- name: last_signal
-- The newest signal.
SELECT coalesce(max(n), 0) FROM signals;

-- name: insert_lease
-- A driving process begins.
INSERT OR REPLACE INTO leases (id, counter, boot, pid, started, agents) VALUES (?, ?, ?, ?, ?, ?);

-- name: bump_lease
-- A driving process is alive.
UPDATE leases SET counter = counter + 1 WHERE id = ?;

-- name: delete_lease
-- A driving process is gone.
DELETE FROM leases WHERE id = ?;

-- name: leases
-- All driving processes.
SELECT id, counter, boot, pid, started, agents FROM leases;

-- name: insert_contract
-- What an agent promises, by fingerprint.
INSERT OR IGNORE INTO contracts (id, agent, doc) VALUES (?, ?, ?);

-- name: contract
-- A contract by fingerprint.
SELECT doc FROM contracts WHERE id = ?;

-- name: contract_of_agent
-- The newest contract of an agent.
SELECT id, doc FROM contracts WHERE agent = ? ORDER BY rowid DESC LIMIT 1;

-- name: live_children
-- Children that have not ended.
SELECT id FROM runs WHERE parent = ? AND status NOT IN ('cancelled', 'done', 'failed') ORDER BY n;

-- name: uncounted_children
-- Children whose spending the parent's own count does not hold: live ones, and those whose call was given up.
SELECT child.id FROM runs AS child JOIN runs AS parent ON parent.id = child.parent
WHERE child.parent = ? AND (child.status NOT IN ('cancelled', 'done', 'failed') OR NOT EXISTS (
    SELECT 1 FROM calls
    WHERE calls.run = parent.n AND calls.id = json_extract(child.doc, '$.parent_call')
    AND calls.status IN ('finished', 'failed')))
ORDER BY child.n;

-- name: children
-- All children of a run.
SELECT id FROM runs WHERE parent = ? ORDER BY n;

-- name: claimable
-- Runs a driver may want: queued ones, and live ones that somebody holds or held.
SELECT id, agent, status, holder FROM runs INDEXED BY runs_live
WHERE status NOT IN ('cancelled', 'done', 'failed', 'paused') ORDER BY n;

-- name: queued
-- The oldest queued runs of an agent: as many as are wanted, however many there are.
SELECT n, id, agent, status, holder FROM runs INDEXED BY runs_live
WHERE status NOT IN ('cancelled', 'done', 'failed', 'paused') AND status = 'queued' AND agent = ? ORDER BY n LIMIT ?;

-- name: held
-- Runs that somebody drives, or drove.
SELECT id, agent, status, holder FROM runs INDEXED BY runs_live
WHERE status NOT IN ('cancelled', 'done', 'failed', 'paused') AND status IN ('running', 'pausing', 'cancelling')
ORDER BY n;

-- name: due
-- Runs with a deadline that has passed.
SELECT id FROM runs WHERE wake_at IS NOT NULL AND wake_at <= ? ORDER BY wake_at;

-- name: house_head
-- Where the record of the house stands.
SELECT seq, hash FROM house ORDER BY seq DESC LIMIT 1;

-- name: append_house
-- One event of the house, chained to what was there.
INSERT INTO house (seq, at, body, hash) VALUES (?, ?, ?, ?);

-- name: house_after
-- The record of the house after a seq, oldest first.
SELECT seq, at, body, hash FROM house WHERE seq > ? ORDER BY seq LIMIT ?;

-- name: insert_halt
-- An operator's halt; it holds from here on.
INSERT INTO halts (id, doc, key, signature, lifted) VALUES (?, ?, ?, ?, NULL);

-- name: halt
-- One halt, whether it holds or was lifted.
SELECT id, doc, key, signature, lifted FROM halts WHERE id = ?;

-- name: holding_halts
-- Halts that hold, oldest first: looked at by every start and every claim.
SELECT id, doc, key, signature, lifted FROM halts WHERE lifted IS NULL ORDER BY n;

-- name: all_halts
-- Every halt there ever was, oldest first.
SELECT id, doc, key, signature, lifted FROM halts ORDER BY n;

-- name: lift_halt
-- A halt holds no longer; 0 rows if it did not.
UPDATE halts SET lifted = ? WHERE id = ? AND lifted IS NULL;

-- name: runs_to_halt
-- Live runs that a halt matches, and everything that lives below them; {match} says which.
-- The statuses are written as the partial indexes have them: SQLite uses those for nothing else.
WITH RECURSIVE hit(id) AS (
    SELECT id FROM runs WHERE status NOT IN ('cancelled', 'done', 'failed', 'paused') AND {match}
    UNION SELECT id FROM runs WHERE status = 'paused' AND {match}
    UNION SELECT runs.id FROM runs JOIN hit ON runs.parent = hit.id
    WHERE runs.status NOT IN ('cancelled', 'done', 'failed')
)
SELECT runs.id FROM hit JOIN runs ON runs.id = hit.id ORDER BY runs.n;

-- name: runs_halted_by
-- Runs that a halt holds; a row that cannot be read is nobody's.
WITH held(n, id, doc) AS (
    SELECT n, id, doc FROM runs WHERE status NOT IN ('cancelled', 'done', 'failed', 'paused') AND status = 'pausing'
    UNION ALL SELECT n, id, doc FROM runs WHERE status = 'paused'
)
SELECT id FROM held WHERE CASE WHEN json_valid(doc) THEN EXISTS (
    SELECT 1 FROM json_each(doc, '$.holds.halted.data.halts') WHERE json_each.key = ?) ELSE 0 END ORDER BY n;

-- name: insert_token
-- A token from now on; its secret is not kept.
INSERT INTO tokens (id, hash, doc, expires) VALUES (?, ?, ?, ?);

-- name: token_by_hash
-- The token with that secret.
SELECT id, doc, expires, revoked FROM tokens WHERE hash = ?;

-- name: token_by_id
-- The token with that name.
SELECT id, doc, expires, revoked FROM tokens WHERE id = ?;

-- name: tokens
-- All tokens, oldest first, those that count no longer too.
SELECT id, doc, expires, revoked FROM tokens ORDER BY rowid;

-- name: revoke_token
-- It counts no longer; the first time stands.
UPDATE tokens SET revoked = coalesce(revoked, ?) WHERE id = ?;

-- name: lineage
-- A run and those it descends from, with their labels.
WITH RECURSIVE line (id, parent, doc) AS (
    SELECT id, parent, doc FROM runs WHERE id = ?
    UNION SELECT runs.id, runs.parent, runs.doc FROM runs JOIN line ON runs.id = line.parent
) SELECT id, json_extract(doc, '$.labels') FROM line;

-- name: moved
-- Runs whose record has grown after a place.
SELECT DISTINCT run FROM record WHERE rowid > ?;

-- name: resting
-- Is one of them at rest?
SELECT EXISTS (SELECT 1 FROM record r JOIN runs u ON u.n = r.run
    WHERE r.rowid > ? AND u.status IN ('paused', 'cancelled', 'done', 'failed'));

-- name: run_number
-- The row number of a run.
SELECT n FROM runs WHERE id = ?;

-- name: run_numbers
-- The row numbers of all runs.
SELECT n FROM runs ORDER BY n;

-- name: head_of_run
-- Where the record of a run stands.
SELECT seq, hash FROM record WHERE run = ? ORDER BY seq DESC LIMIT 1;

-- name: plain_run
-- The row of a run, as it is.
SELECT n, id, agent, status, seq, head, fence, epoch, holder, doc, parent, created, wake_at, needs FROM runs WHERE n = ?;

-- name: plain_mail
-- All mail of a run, as it is.
SELECT n, run, id, status, doc FROM mail WHERE run = ? ORDER BY n;

-- name: plain_contract
-- A contract, as it is.
SELECT id, agent, doc FROM contracts WHERE id = ?;

-- name: plain_contracts
-- All contracts, as they are.
SELECT id, agent, doc FROM contracts ORDER BY id;

-- name: plain_log
-- Rows of a log, as they are.
SELECT idx, body FROM logs WHERE log = ? AND idx > ? ORDER BY idx LIMIT ?;

-- name: plain_logs
-- The logs there are, and how many rows each has.
SELECT log, count(*) FROM logs GROUP BY log ORDER BY log;

-- name: plain_halts
-- All halts, as they are.
SELECT n, id, doc, key, signature, lifted FROM halts ORDER BY n;

-- name: plain_tokens
-- All tokens, as they are.
SELECT id, hash, doc, expires, revoked FROM tokens ORDER BY id;

-- name: strays
-- Rows that belong to no run.
SELECT 'record', run FROM record WHERE run NOT IN (SELECT n FROM runs)
UNION SELECT 'calls', run FROM calls WHERE run NOT IN (SELECT n FROM runs)
UNION SELECT 'mail', run FROM mail WHERE run NOT IN (SELECT n FROM runs);

-- name: last_checkpoint
-- The newest signed statement.
SELECT n, at, doc, key, signature FROM checkpoints ORDER BY n DESC LIMIT 1;

-- name: checkpoints_after
-- Signed statements after a number, oldest first.
SELECT n, at, doc, key, signature FROM checkpoints WHERE n > ? ORDER BY n LIMIT ?;

-- name: insert_checkpoint
-- A signed statement; two with one number cannot be.
INSERT INTO checkpoints (n, at, doc, key, signature) VALUES (?, ?, ?, ?, ?);

-- name: record_places
-- Rows of a run's record that still have their content, newest first, with its size.
SELECT rowid, length(body) + coalesce(length(state), 0), seq FROM record
WHERE run = ? AND seq < ? AND gone IS NULL ORDER BY seq DESC LIMIT ?;

-- name: has_content
-- Has the first row its content? It is the last to lose it.
SELECT gone IS NULL FROM record WHERE run = ? ORDER BY seq LIMIT 1;

-- name: record_content
-- The content of one row.
SELECT body, state FROM record WHERE rowid = ?;

-- name: bury
-- A row without its content keeps the digests of it.
UPDATE record SET body = ?, state = NULL, gone = ? WHERE rowid = ?;

-- name: places_of_calls
-- Calls of a run that is forgotten, with their sizes.
SELECT n, length(doc) + length(args) + coalesce(length(before), 0) + coalesce(length(result), 0)
FROM calls WHERE run = ? LIMIT ?;

-- name: delete_call
-- One of them.
DELETE FROM calls WHERE n = ?;

-- name: places_of_mail
-- Its mail.
SELECT n, length(doc) FROM mail WHERE run = ? LIMIT ?;

-- name: delete_mail
-- One of it.
DELETE FROM mail WHERE n = ?;

-- name: places_of_log
-- Rows of a log that only it used.
SELECT rowid, length(body) FROM logs WHERE log = ? LIMIT ?;

-- name: delete_log_row
-- One of them.
DELETE FROM logs WHERE rowid = ?;

-- name: requests_of
-- Requests about a run; there is no index, so nobody looks for them while others wait.
SELECT id FROM requests WHERE run = ?;

-- name: delete_request
-- What was answered to one of them.
DELETE FROM requests WHERE id = ?;

-- name: forks
-- Runs that were forked from a run, after a number.
SELECT id FROM runs WHERE n > ? AND json_extract(doc, '$.forked_from') = ? ORDER BY n;

-- name: last_run
-- The number of the newest run.
SELECT coalesce(max(n), 0) FROM runs;

-- name: forget_run
-- What is left of it: that it was, and how it ended.
UPDATE runs SET doc = ?, holder = NULL, wake_at = NULL, needs = 0 WHERE n = ?;
