"""Loads an export for ClickHouse into chDB, ClickHouse within a process, and runs its queries.

usage: clickhouse.py FOLDER     (of `wakepath export --to clickhouse`)

Prints JSON: {"queries": [[ROW, ...], ...] in the order of queries.sql, "totals": ROW, "lookup": ROW}. Every statement is one of the
folder's own files.
"""

import json
import os
import re
import sys

from chdb.session import Session


def statements(path):
    """The statements of a file, each with the comments before it."""
    parts = re.split(r";\n", open(path, encoding="utf-8").read())
    return [p for p in parts if re.sub(r"(?m)^\s*--.*$", "", p).strip()]


def main():
    os.chdir(sys.argv[1])
    session = Session()

    def rows(query):
        numbers = " SETTINGS output_format_json_quote_64bit_integers = 0, session_timezone = 'Asia/Tokyo'"
        return json.loads(session.query(query + numbers, "JSON").bytes())["data"]

    session.query("CREATE DATABASE shop")
    session.query("USE shop")
    # a second time nothing changes
    for path in ("schema.sql", "schema.sql", "load.sql"):
        for statement in statements(path):
            session.query(statement)
    totals = rows("""SELECT (SELECT count() FROM otel_traces) AS spans, count() AS requests,
        min(toUnixTimestamp64Nano(Timestamp)) AS first, max(toUnixTimestamp64Nano(Timestamp)) AS last,
        sum(arraySum(CriticalPath.Duration)) AS on_paths, sumIf(Duration, NoCriticalPath = '') AS with_paths
        FROM wakepath_requests""")[0]
    # a trace is found by the time that the lookup table has for its id
    lookup = rows("""SELECT count() AS traces, countIf(found = spans) AS found FROM
        (SELECT TraceId, count() AS spans, countIf(Timestamp >= l.Start AND Timestamp <= l.End + 1) AS found FROM otel_traces
        INNER JOIN (SELECT TraceId, min(Start) AS Start, max(End) AS End FROM otel_traces_trace_id_ts GROUP BY TraceId) AS l
        USING (TraceId) GROUP BY TraceId)""")[0]
    queries = [rows(query) for query in statements("queries.sql")]
    json.dump({"queries": queries, "totals": totals, "lookup": lookup}, sys.stdout)


main()
