-- Which documents are changed most, by how many people, and how large are they?
-- grain: hub, channel, day
-- partition: day(day)
-- reads: document_facts
-- columns: text hub channel, whole changes authors bytes version document_bytes, time first_at last_at, text day
-- Version and size are those after the day's last change.
WITH ordered AS (
  SELECT *, day_name(time) AS day, row_number() OVER (PARTITION BY hub, channel, day_name(time)
    ORDER BY last_at DESC, version DESC NULLS FIRST, document_bytes DESC NULLS FIRST) AS place
  FROM document_facts
)
SELECT hub, channel, sum(changes) AS changes, count(DISTINCT "user") AS authors, sum(bytes) AS bytes,
  max(CASE WHEN place = 1 THEN version END) AS version, max(CASE WHEN place = 1 THEN document_bytes END) AS document_bytes,
  min(first_at) AS first_at, max(last_at) AS last_at, day
FROM ordered GROUP BY hub, channel, day
