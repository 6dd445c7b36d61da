-- What was published to which channel, and of which type, in each hour?
-- grain: hub, channel, event, hour
-- partition: hour(hour)
-- reads: messages
-- columns: text hub channel event, whole messages bytes, text hour
SELECT hub, channel, event, sum(1) AS messages, sum(coalesce(size, 0)) AS bytes, hour_name(hour_of("at")) AS hour
FROM messages WHERE channel IS NOT NULL
GROUP BY hub, channel, event, hour_of("at")
