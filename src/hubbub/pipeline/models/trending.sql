-- Which channels, types of messages and words are used more than they usually are?
-- grain: hub, kind, name, time
-- partition: all
-- recent: 192 hours
-- reads: channels, terms
-- columns: text hub kind name, time time, whole messages, real usual score, whole rank
-- The last 24 hours. Usual is the hourly mean of the week before, or since the hub's first hour if that is
-- later; the score is how many standard deviations the hour is above that.
WITH subjects AS (
  SELECT hub, 'channel' AS kind, channel AS name, hour_named(hour) AS hour, messages FROM channels
  UNION ALL
  SELECT hub, 'type', event, hour_named(hour), messages FROM channels WHERE event IS NOT NULL
  UNION ALL
  SELECT hub, 'term', term, hour_named(hour), messages FROM terms
), counted AS (
  SELECT hub, kind, name, hour, CAST(sum(messages) AS BIGINT) AS messages FROM subjects GROUP BY hub, kind, name, hour
), compared AS (
  SELECT hub, kind, name, hour, messages, coalesce(sum(messages) OVER week_before, 0) AS seen,
    coalesce(sum(messages * messages) OVER week_before, 0) AS squares,
    CAST(least(hour - min(hour) OVER (PARTITION BY hub), 168) AS DOUBLE) AS known, max(hour) OVER () AS newest
  FROM counted
  WINDOW week_before AS (PARTITION BY hub, kind, name ORDER BY hour RANGE BETWEEN 168 PRECEDING AND 1 PRECEDING)
), usually AS (
  SELECT *, seen / known AS usual, squares / known AS mean_square FROM compared WHERE known > 0 AND hour > newest - 24
), scored AS (
  SELECT *, (messages - usual) / sqrt(greatest(mean_square - usual * usual, usual) + 1) AS score FROM usually
), ranked AS (
  SELECT *, row_number() OVER (PARTITION BY hub, kind, hour ORDER BY score DESC, name) AS rank FROM scored WHERE score > 0
)
SELECT hub, kind, name, from_micros(hour * 3600000000) AS time, messages, usual, score, rank FROM ranked WHERE rank <= 20
