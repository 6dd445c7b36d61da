-- From here on, rules that say nothing of live history keep one for clients that come back. Those that
-- are stored keep their value: what is omitted was `false`. Where a row says `true`, it comes later in
-- the row and prevails.
UPDATE settings SET value = CAST(CAST('{"live_history":false,' AS {blob}) || substr(value, 2) AS {blob})
WHERE kind = 'rules' AND length(value) > 2;
UPDATE settings SET value = CAST('{"live_history":false}' AS {blob}) WHERE kind = 'rules' AND length(value) = 2;
