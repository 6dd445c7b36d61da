-- Which consecutive numbers did a producer put, and a durable subscription receive, in each hour?
-- grain: kind, hub, channel, epoch, user, name, again, time, run
-- partition: hour(time)
-- reads: messages, receipts, drops
-- columns: text kind hub channel epoch user name, flag again, time time, whole run first last count, time began, whole place
-- Sequences of producers in the order of serials; serials that a subscription received, acknowledged or gave up, in the
-- order of time. What live sessions lost has a count only.
WITH numbers AS (
  SELECT 'message.published' AS kind, hub, channel, epoch, "user", producer AS name, false AS again, hour_of("at") AS time,
    sequence AS first, sequence AS last, "at", serial AS place, serial AS order_1, micros("at") AS order_2,
    message_id AS order_3, 0 AS order_4
  FROM messages WHERE producer IS NOT NULL AND sequence IS NOT NULL
  UNION ALL
  SELECT kind, hub, channel, epoch, "user", subscription, coalesce(delivery, 1) > 1, hour_of("at"),
    coalesce(first_serial, serial), serial, "at", "offset", micros("at"), 0, segment, "offset"
  FROM receipts WHERE serial IS NOT NULL AND subscription IS NOT NULL
), marked AS (
  SELECT *, CASE WHEN first = lag(last) OVER in_order + 1 THEN 0 ELSE 1 END AS begins FROM numbers
  WINDOW in_order AS (PARTITION BY kind, hub, channel, epoch, "user", name, again, time
    ORDER BY order_1 NULLS FIRST, order_2, order_3, order_4)
), counted AS (
  SELECT *, sum(begins) OVER (PARTITION BY kind, hub, channel, epoch, "user", name, again, time
    ORDER BY order_1 NULLS FIRST, order_2, order_3, order_4 ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS run
  FROM marked
)
SELECT kind, hub, channel, epoch, "user", name, again, time, run, min(first) AS first, max(last) AS last,
  sum(last - first + 1) AS count, min("at") AS began, max(CASE WHEN begins = 1 THEN place END) AS place
FROM counted GROUP BY kind, hub, channel, epoch, "user", name, again, time, run
UNION ALL
SELECT kind, hub, channel, NULL, NULL, coalesce(session, reason), false, hour_of("at"), 1, NULL, NULL,
  sum(coalesce(count, 1)), min("at"), NULL
FROM drops WHERE kind = 'message.dropped' GROUP BY kind, hub, channel, coalesce(session, reason), hour_of("at")
