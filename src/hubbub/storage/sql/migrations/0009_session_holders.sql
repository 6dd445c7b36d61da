-- The process that a restorable session is connected to. As long as the process lives it moves
-- `held_until` forward, for all of its sessions at once; after a kill their keys expire then.
ALTER TABLE sessions ADD COLUMN holder {text} NOT NULL DEFAULT '';

CREATE TABLE session_holders (
    holder {text} NOT NULL PRIMARY KEY,
    held_until BIGINT NOT NULL
){updated_often};
