-- Which consecutive numbers did a producer put, and a durable subscription receive, in each month?
-- grain: kind, hub, channel, epoch, user, name, again, month, run
-- partition: month(month)
-- reads: audit_runs
-- columns: text kind hub channel epoch user name, flag again, text month, whole run first last count, time began, whole place
-- Runs that go on in the next hour are one run.
WITH marked AS (
  SELECT *, month_name(time) AS month,
    CASE WHEN coalesce(first, 0) = lag(coalesce(last, -1)) OVER in_order + 1 THEN 0 ELSE 1 END AS begins
  FROM audit_runs
  WINDOW in_order AS (PARTITION BY kind, hub, channel, epoch, "user", name, again, month_name(time)
    ORDER BY began, place NULLS FIRST, first)
), counted AS (
  SELECT kind, hub, channel, epoch, "user", name, again, month, first, last, count, began, place, begins,
    sum(begins) OVER (PARTITION BY kind, hub, channel, epoch, "user", name, again, month
      ORDER BY began, place NULLS FIRST, first ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS run
  FROM marked
)
SELECT kind, hub, channel, epoch, "user", name, again, month, run, min(first) AS first, max(last) AS last,
  sum(count) AS count, min(began) AS began, max(CASE WHEN begins = 1 THEN place END) AS place
FROM counted GROUP BY kind, hub, channel, epoch, "user", name, again, month, run
