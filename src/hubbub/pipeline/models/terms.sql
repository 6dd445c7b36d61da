-- Which words are in how many messages, in each hour?
-- grain: hub, term, hour
-- partition: hour(hour)
-- reads: term_facts
-- columns: text hub term, whole messages, text hour
-- A word in a single message of an hour is no trend; most words are.
SELECT hub, term, sum(messages) AS messages, hour_name(time) AS hour
FROM term_facts GROUP BY hub, term, time HAVING sum(messages) >= 2
