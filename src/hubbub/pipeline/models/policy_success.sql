-- How often was each delivery policy met?
-- grain: hub, policy, day
-- partition: day(day)
-- reads: verdicts
-- columns: text hub policy, whole deliveries met failed timed_out, real success, text day
-- After a crash a verdict may be in the journal twice: the last one counts.
WITH ordered AS (
  SELECT hub, policy, day_name("at") AS day, outcome, row_number() OVER (
    PARTITION BY hub, policy, day_name("at"), message_id, receiver ORDER BY "at" DESC, segment DESC, "offset" DESC) AS place
  FROM verdicts
)
SELECT hub, policy, count(*) AS deliveries, sum(CASE WHEN outcome = 'met' THEN 1 ELSE 0 END) AS met,
  sum(CASE WHEN outcome = 'failed' THEN 1 ELSE 0 END) AS failed,
  sum(CASE WHEN outcome = 'timed_out' THEN 1 ELSE 0 END) AS timed_out,
  CAST(sum(CASE WHEN outcome = 'met' THEN 1 ELSE 0 END) AS DOUBLE) / count(*) AS success, day
FROM ordered WHERE place = 1 GROUP BY hub, policy, day
