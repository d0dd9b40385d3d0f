-- Requests that changed nothing: whoever floods a run with stops that hold already does not fill the file.
ALTER TABLE requests ADD COLUMN idle INTEGER NOT NULL DEFAULT 0;
CREATE INDEX requests_idle ON requests (idle) WHERE idle = 1;
