-- Tables for `wakepath export --to clickhouse`. Those that are there stay as they are.

-- Spans, in the layout of the ClickHouse exporter of OpenTelemetry's collector, so what reads its table reads this one.
CREATE TABLE IF NOT EXISTS otel_traces
(
    Timestamp          DateTime64(9) CODEC(Delta(8), ZSTD(1)),
    TraceId            String CODEC(ZSTD(1)),
    SpanId             String CODEC(ZSTD(1)),
    ParentSpanId       String CODEC(ZSTD(1)),
    TraceState         String CODEC(ZSTD(1)),
    SpanName           LowCardinality(String) CODEC(ZSTD(1)),
    SpanKind           LowCardinality(String) CODEC(ZSTD(1)),
    ServiceName        LowCardinality(String) CODEC(ZSTD(1)),
    ResourceAttributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    ScopeName          String CODEC(ZSTD(1)),
    ScopeVersion       String CODEC(ZSTD(1)),
    SpanAttributes     Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    Duration           UInt64 CODEC(ZSTD(1)), -- ns
    StatusCode         LowCardinality(String) CODEC(ZSTD(1)),
    StatusMessage      String CODEC(ZSTD(1)),
    Events             Nested
    (
        Timestamp  DateTime64(9),
        Name       LowCardinality(String),
        Attributes Map(LowCardinality(String), String)
    ) CODEC(ZSTD(1)),
    Links              Nested
    (
        TraceId    String,
        SpanId     String,
        TraceState String,
        Attributes Map(LowCardinality(String), String)
    ) CODEC(ZSTD(1)),
    INDEX idx_trace_id TraceId TYPE bloom_filter(0.001) GRANULARITY 1,
    INDEX idx_res_attr_key mapKeys(ResourceAttributes) TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX idx_res_attr_value mapValues(ResourceAttributes) TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX idx_span_attr_key mapKeys(SpanAttributes) TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX idx_span_attr_value mapValues(SpanAttributes) TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX idx_duration Duration TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toDate(Timestamp)
ORDER BY (ServiceName, SpanName, toDateTime(Timestamp));

-- When each trace began and its last span began: Grafana narrows a search for a trace's id by it.
CREATE TABLE IF NOT EXISTS otel_traces_trace_id_ts
(
    TraceId String CODEC(ZSTD(1)),
    Start   DateTime CODEC(Delta(4), ZSTD(1)),
    End     DateTime CODEC(Delta(4), ZSTD(1)),
    INDEX idx_trace_id TraceId TYPE bloom_filter(0.01) GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toDate(Start)
ORDER BY (TraceId, Start);

CREATE MATERIALIZED VIEW IF NOT EXISTS otel_traces_trace_id_ts_mv TO otel_traces_trace_id_ts AS
SELECT TraceId, min(Timestamp) AS Start, max(Timestamp) AS End
FROM otel_traces
WHERE TraceId != ''
GROUP BY TraceId;

-- What only Wakepath has: a row for each request, with what its critical path went to and what is not known of it. Calls whose
-- request is not known are in otel_traces alone.
CREATE TABLE IF NOT EXISTS wakepath_requests
(
    Timestamp      DateTime64(9) CODEC(Delta(8), ZSTD(1)), -- when it began
    TraceId        String CODEC(ZSTD(1)), -- as in otel_traces; `wakepath show` takes the last 16 digits
    ServiceName    LowCardinality(String), -- the entry service
    SpanName       LowCardinality(String), -- what was asked
    Class          LowCardinality(String), -- request, or what only awaits an event or opens a connection: awaits, opens
    Duration       UInt64 CODEC(ZSTD(1)), -- ns
    Status         UInt16 CODEC(ZSTD(1)), -- of its reply; 0 = none
    Failed         Nullable(Bool), -- the server failed, by its reply; NULL = no reply that says so was read
    End            LowCardinality(String), -- answered, client_left, reset, cut, or unfinished
    Spans          UInt32 CODEC(ZSTD(1)), -- its messages, itself included
    Complete       Bool, -- nothing is known to be missing in its path
    Incomplete     Array(LowCardinality(String)) CODEC(ZSTD(1)), -- why it is incomplete: an entry for each span that lacks something
    OpenCalls      UInt32 CODEC(ZSTD(1)), -- calls that may be its, and could not be assigned
    NoCriticalPath LowCardinality(String), -- why CriticalPath is empty: incomplete path, no complete reply, no waits were recorded
    CriticalPath   Nested -- the largest part first; all parts add up to Duration
    (
        SpanId    String, -- in whose time it lies
        Cause     LowCardinality(String), -- what it was spent on; docs/evidence.md lists the causes
        Service   LowCardinality(String), -- where
        Host      LowCardinality(String),
        State     LowCardinality(String), -- what whoever was waited for did
        Call      LowCardinality(String), -- the system call in which was waited
        By        LowCardinality(String), -- who held the lock or the processor, sent the message, or was waited for
        OwnThread Bool, -- for a lock: another thread of the same process holds it
        Object    String, -- the connection, file, device, or name server
        Meanwhile LowCardinality(String), -- for a lock or name server: who ran meanwhile
        Serving   String, -- what the service had been asked for
        Reason    LowCardinality(String), -- why no more is known
        Duration  UInt64, -- ns
        Intervals UInt64 -- how many intervals it is the sum of
    ) CODEC(ZSTD(1)),
    INDEX idx_trace_id TraceId TYPE bloom_filter(0.001) GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toDate(Timestamp)
ORDER BY (ServiceName, SpanName, toDateTime(Timestamp));
