-- The nodes of a cluster that reach this database. `beats` only grows: who watches it sees which
-- of them live, by no clock but its own.
CREATE TABLE nodes (
    name {text} NOT NULL PRIMARY KEY,
    beats BIGINT NOT NULL
){updated_often};
