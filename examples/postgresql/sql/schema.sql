CREATE TABLE invoices (
    id    bigint PRIMARY KEY,
    cents bigint NOT NULL DEFAULT 0,
    fence bigint NOT NULL DEFAULT 0    -- of the newest holder that was here
);
CREATE TABLE fences (
    resource text PRIMARY KEY,
    fence    bigint NOT NULL CHECK (fence > 0)
);
CREATE TABLE jobs (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    payload text NOT NULL,
    done_at timestamptz
);
CREATE INDEX jobs_to_do ON jobs (id) WHERE done_at IS NULL;
