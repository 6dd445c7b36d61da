-- The functions in which the dialects differ. Models use these and standard SQL.
CREATE OR REPLACE MACRO slot(t) AS make_timestamptz(epoch_us(t) - epoch_us(t) % 300000000);
CREATE OR REPLACE MACRO hour_of(t) AS make_timestamptz(epoch_us(t) - epoch_us(t) % 3600000000);
CREATE OR REPLACE MACRO hour_name(t) AS strftime(make_timestamp(epoch_us(t)), '%Y-%m-%dT%H');
CREATE OR REPLACE MACRO day_name(t) AS strftime(make_timestamp(epoch_us(t)), '%Y-%m-%d');
CREATE OR REPLACE MACRO hour_named(hour) AS epoch_us(CAST(hour || ':00:00+00' AS TIMESTAMPTZ)) // 3600000000;
CREATE OR REPLACE MACRO micros(t) AS epoch_us(t);
CREATE OR REPLACE MACRO from_micros(us) AS make_timestamptz(CAST(us AS BIGINT));
CREATE OR REPLACE MACRO bucket_of(us) AS CAST(floor(log2(greatest(us, 1)) * 8) AS INTEGER);
CREATE OR REPLACE MACRO explode(x) AS unnest(x);
CREATE OR REPLACE MACRO sequence(a, b, step) AS generate_series(a, b, step);
CREATE OR REPLACE MACRO mean_of(total, n) AS CASE WHEN n > 0 THEN total / n END;
CREATE OR REPLACE MACRO deviation(squares, total, n) AS CASE WHEN n > 0 THEN sqrt(greatest(squares / n - (total / n) * (total / n), 0)) END;
CREATE OR REPLACE MACRO percentile_of(b, low, high) AS CASE WHEN b IS NOT NULL THEN least(greatest(power(2, (b + 0.5) / 8), low), high) END;
CREATE OR REPLACE MACRO month_name(t) AS strftime(make_timestamp(epoch_us(t)), '%Y-%m');
CREATE OR REPLACE MACRO hour_of_day(t) AS (epoch_us(t) // 3600000000) % 24;
