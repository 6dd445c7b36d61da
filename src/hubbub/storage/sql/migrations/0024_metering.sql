-- What hubs did, by five minutes; `at` 0 holds the totals. `hub` '*' is the sum of all hubs, and `life`
-- the process that counted.
CREATE TABLE metering (
    hub {text} NOT NULL,
    at BIGINT NOT NULL,
    life {text} NOT NULL,
    messages_in BIGINT NOT NULL,
    bytes_in BIGINT NOT NULL,
    messages_out BIGINT NOT NULL,
    bytes_out BIGINT NOT NULL,
    sessions_opened BIGINT NOT NULL,
    sessions_ended BIGINT NOT NULL,
    session_us BIGINT NOT NULL,
    sessions_before BIGINT NOT NULL,
    channels BIGINT NOT NULL,
    hubs BIGINT NOT NULL,
    PRIMARY KEY (hub, at, life)
){updated_often};
CREATE INDEX metering_by_time ON metering (at);

COUNT ROWS OF metering AS CASE WHEN hub = '*' THEN 0 ELSE 200 END;
