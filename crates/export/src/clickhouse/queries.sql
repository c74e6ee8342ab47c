-- Questions to the tables of `wakepath export --to clickhouse`. Run all: clickhouse-client --queries-file queries.sql

-- 1. Slow because of what: what the slowest 5 % of each kind of request spent more time on than the others, on average. Like
-- `wakepath why`, it leaves out kinds with fewer than 8 others.
WITH
    known AS
    (
        SELECT * FROM wakepath_requests WHERE Class = 'request' AND NoCriticalPath = ''
    ),
    kinds AS
    (
        SELECT
            ServiceName, SpanName, limit_ns,
            countIf(Duration >= limit_ns) AS slow_requests,
            countIf(Duration < limit_ns) AS other_requests
        FROM known
        INNER JOIN
        (
            SELECT ServiceName, SpanName, quantileExact(0.95)(Duration) AS limit_ns
            FROM known
            GROUP BY ServiceName, SpanName
        ) AS limits USING (ServiceName, SpanName)
        GROUP BY ServiceName, SpanName, limit_ns
    )
SELECT
    ServiceName AS entry,
    SpanName AS asked,
    cause, service, host,
    intDiv(sumIf(ns, request_ns >= limit_ns), any(slow_requests)) AS slow_ns,
    intDiv(sumIf(ns, request_ns < limit_ns), any(other_requests)) AS other_ns,
    toInt64(slow_ns) - toInt64(other_ns) AS more_ns,
    any(limit_ns) AS slow_from_ns,
    -- of its longest part in one request: what was waited for, who held or sent that, or was waited for, and what else is known
    argMax(object, ns) AS longest_for,
    argMax(by, ns) AS longest_by,
    argMax(reason, ns) AS longest_reason
FROM
(
    SELECT
        ServiceName, SpanName,
        Duration AS request_ns,
        path.Cause AS cause, path.Service AS service, path.Host AS host,
        path.Duration AS ns,
        path.Object AS object,
        path.By AS by,
        path.Reason AS reason
    FROM known
    ARRAY JOIN CriticalPath AS path
) AS parts
INNER JOIN kinds USING (ServiceName, SpanName)
WHERE slow_requests > 0 AND other_requests >= 8
GROUP BY ServiceName, SpanName, cause, service, host
ORDER BY more_ns DESC
LIMIT 20;

-- 2. Which service's waiting grew between two periods, on average for each request of a kind. Here the periods are the two
-- halves of all that is loaded; put your own moment in its place. Kinds with fewer than 8 requests before it are left out.
WITH
    (
        SELECT fromUnixTimestamp64Nano(intDiv(min(toUnixTimestamp64Nano(Timestamp)) + max(toUnixTimestamp64Nano(Timestamp)), 2))
        FROM wakepath_requests
    ) AS moment,
    known AS
    (
        SELECT * FROM wakepath_requests WHERE Class = 'request' AND NoCriticalPath = ''
    ),
    kinds AS
    (
        SELECT
            ServiceName, SpanName,
            countIf(Timestamp < moment) AS requests_before,
            countIf(Timestamp >= moment) AS requests_after
        FROM known
        GROUP BY ServiceName, SpanName
    )
SELECT
    ServiceName AS entry,
    SpanName AS asked,
    service, host, cause,
    intDiv(sumIf(ns, began < moment), any(requests_before)) AS before_ns,
    intDiv(sumIf(ns, began >= moment), any(requests_after)) AS after_ns,
    toInt64(after_ns) - toInt64(before_ns) AS grew_ns
FROM
(
    SELECT
        ServiceName, SpanName,
        Timestamp AS began,
        path.Service AS service, path.Host AS host, path.Cause AS cause,
        path.Duration AS ns
    FROM known
    ARRAY JOIN CriticalPath AS path
    -- what it computed is no waiting, and isolation is the recorder's own
    WHERE path.Cause NOT IN ('cpu', 'isolation')
) AS parts
INNER JOIN kinds USING (ServiceName, SpanName)
WHERE requests_before >= 8 AND requests_after > 0
GROUP BY ServiceName, SpanName, service, host, cause
ORDER BY grew_ns DESC
LIMIT 20;

-- 3. Errors by kind.
SELECT
    ServiceName AS entry,
    SpanName AS asked,
    count() AS requests,
    countIf(Failed) AS failed,
    countIf(End = 'client_left') AS client_left,
    countIf(End = 'reset') AS reset,
    countIf(End = 'cut') AS no_complete_reply,
    countIf(End = 'answered' AND Failed IS NULL) AS outcome_unknown,
    maxIf(TraceId, Failed OR End IN ('client_left', 'reset', 'cut')) AS an_example
FROM wakepath_requests
WHERE Class = 'request'
GROUP BY ServiceName, SpanName
ORDER BY failed + client_left + reset + no_complete_reply DESC, requests DESC
LIMIT 20;

-- 4. Errors of calls within requests, which a request's own reply may hide. A call is one row whether one or both of its sides
-- were watched: `service` is the one that was called, or its caller where only that was watched (Client).
SELECT
    ServiceName AS service, SpanKind AS side, SpanName AS called, SpanAttributes['error.type'] AS error,
    count() AS calls, max(TraceId) AS an_example
FROM otel_traces
WHERE StatusCode = 'Error' AND ParentSpanId != '' AND SpanAttributes['wakepath.evidence'] != ''
    -- a status of 400 to 499 is the caller's error
    AND NOT startsWith(SpanAttributes['http.response.status_code'], '4')
GROUP BY service, side, called, error
ORDER BY calls DESC
LIMIT 20;

-- 5. Incomplete requests, and what they lack. The last rows are calls whose request is not known: these are traces of their own.
SELECT 'requests' AS what, ServiceName AS service, reason, uniqExact(TraceId) AS traces, count() AS times, max(TraceId) AS an_example
FROM wakepath_requests
ARRAY JOIN Incomplete AS reason
WHERE Class = 'request'
GROUP BY service, reason
ORDER BY traces DESC
LIMIT 20
UNION ALL
SELECT
    'calls whose request is not known' AS what, ServiceName AS service, SpanAttributes['wakepath.request_not_known'] AS reason,
    uniqExact(TraceId) AS traces, count() AS times, max(TraceId) AS an_example
FROM otel_traces
WHERE SpanAttributes['wakepath.request_not_known'] != ''
GROUP BY service, reason
ORDER BY traces DESC
LIMIT 20;

-- 6. The same call again and again within a request (N+1), for each kind. `service` and `side` are as in 4.
WITH calls AS
(
    SELECT TraceId, ServiceName AS service, SpanKind AS side, SpanName AS called, count() AS times, sum(Duration) AS ns
    FROM otel_traces
    WHERE ParentSpanId != '' AND SpanAttributes['wakepath.evidence'] != ''
    GROUP BY TraceId, service, side, called
)
SELECT
    ServiceName AS entry,
    SpanName AS asked,
    service, side, called,
    sum(times) AS calls,
    count() AS requests_with,
    any(requests) AS requests_in_all,
    calls / requests_in_all AS calls_per_request,
    max(times) AS most_in_one,
    intDiv(sum(ns), requests_in_all) AS ns_per_request
FROM calls
INNER JOIN wakepath_requests USING (TraceId)
INNER JOIN
(
    SELECT ServiceName, SpanName, count() AS requests
    FROM wakepath_requests
    WHERE Class = 'request' AND End != 'unfinished'
    GROUP BY ServiceName, SpanName
) AS kinds USING (ServiceName, SpanName)
WHERE Class = 'request' AND End != 'unfinished'
GROUP BY entry, asked, service, side, called
HAVING calls_per_request >= 2
ORDER BY calls_per_request DESC
LIMIT 20;
