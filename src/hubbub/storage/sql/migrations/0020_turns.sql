-- Collectives whose members take turns: after how many milliseconds the next one begins.
-- Deliveries have a fourth state: 3 their turn has not come.
ALTER TABLE comm_collectives ADD COLUMN next_after_ms BIGINT;
