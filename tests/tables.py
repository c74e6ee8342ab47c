"""Runs every query of docs/queries.md against a folder's tables and checks what comes out.

usage: tables.py QUERIES.md EXPECTED.json   (in the folder, after `wakepath tables`)

The queries are the document's own code blocks, so that it cannot drift from what is tested. EXPECTED.json tells what the
folder holds: {"requests": N, "kinds": [...], "services": [...], "spans": N, "comms": [...], "faults": [...]}.
"""

import contextlib
import io
import json
import re
import sys

import duckdb
import pandas as pd
import polars as pl


def blocks(path):
    """The document's code blocks: (heading, language, code)."""
    heading, found = "", []
    text = open(path, encoding="utf-8").read()
    for part in re.finditer(r"^## ([^\n]*)$|^```(\w+)\n(.*?)^```$", text, re.M | re.S):
        if part.group(1):
            heading = part.group(1)
        else:
            found.append((heading, part.group(2), part.group(3)))
    return found


def columns(path):
    """The table of names: {table: [columns]}."""
    text = open(path, encoding="utf-8").read()
    listed = "".join(re.findall(r"^\| table \| columns \|\n((?:\|.*\n)+)", text, re.M))
    rows = re.findall(r"^\| `(\w+)`(?: \(derived\))? \| (.*) \|$", listed, re.M)
    return {table: re.findall(r"`(\w+)`", names) for table, names in rows}


def check_names(document):
    """Documented columns are the columns, in their order, and every reader agrees on them."""
    documented = columns(document)
    derived = {"requests", "spans"}
    assert derived < documented.keys() and len(documented) == 30, documented.keys()
    for table, names in documented.items():
        wanted = names if table in derived else ["host", "at_ns", "wall_time", *names]
        path = f"tables/{table}.parquet"
        frame = pd.read_parquet(path)
        assert list(frame.columns) == wanted, (table, list(frame.columns), wanted)
        assert pl.read_parquet(path).columns == wanted, table
        rows = duckdb.sql(f"SELECT * FROM '{path}'")
        assert rows.columns == wanted, table
        assert rows.count("*").fetchall() == [(len(frame),)], table
        if "wall_time" in wanted:
            assert str(frame["wall_time"].dtype) == "datetime64[ns, UTC]", frame["wall_time"].dtype


def check_keys():
    """What the tables promise to each other."""
    one = duckdb.sql
    assert one("SELECT count(*) - count(DISTINCT request_id) FROM 'tables/requests.parquet'").fetchall() == [(0,)]
    assert one("SELECT count(*) - count(DISTINCT (request_id, span)) FROM 'tables/spans.parquet'").fetchall() == [(0,)]
    lost = one("""SELECT count(*) FROM 'tables/spans.parquet' c LEFT JOIN 'tables/spans.parquet' p
                  ON c.request_id = p.request_id AND c.parent = p.span
                  WHERE c.parent IS NOT NULL AND (p.span IS NULL OR p.depth + 1 <> c.depth)""")
    assert lost.fetchall() == [(0,)], "a span whose parent is not there"
    counts = one("""SELECT count(*) FROM 'tables/requests.parquet' r
                    WHERE r.spans <> (SELECT count(*) FROM 'tables/spans.parquet' s WHERE s.request_id = r.request_id)""")
    assert counts.fetchall() == [(0,)], "requests.spans is not their number"
    roots = one("""SELECT count(*) FROM 'tables/requests.parquet' r JOIN 'tables/spans.parquet' s USING (request_id)
                   WHERE s.parent IS NULL AND s.start_ns = r.start_ns AND s.end_ns - s.start_ns = r.duration_ns""")
    assert roots.fetchall() == one("SELECT count(*) FROM 'tables/requests.parquet'").fetchall()
    flows = one("""SELECT count(*) FROM 'tables/spans.parquet' s ANTI JOIN 'tables/operations.parquet' o
                   ON s.host = o.host AND s.flow = o.flow AND s.task = o.task""")
    assert flows.fetchall() == [(0,)], "a span's flow and task are those of the base tables"


def check_queries(document, expected):
    done = []
    for heading, language, code in blocks(document):
        done.append(heading.split(".")[0])
        if language == "sql":
            rows = duckdb.sql(code)
            named = [dict(zip(rows.columns, row)) for row in rows.fetchall()]
        else:
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(code, heading, "exec"), {})  # noqa: S102
            text = out.getvalue()
        match done[-1]:
            case "Names":
                assert {r["what"]: int(r["lost"]) for r in named} == expected["losses"], named
            case "1":
                assert {r["comm"] for r in named} >= set(expected["comms"]), named
                assert all(r["waits"] > 0 and r["ms"] >= r["longest_ms"] > 0 for r in named), named
            case "2":
                assert expected["host"] in text and "p99_us" in text, text
                assert pl.read_parquet("tables/operations.parquet")["arrived_ns"].drop_nulls().len() > 0
            case "3":
                assert {r["kind"] for r in named} == set(expected["kinds"]), named
                assert sum(r["requests"] for r in named) == expected["requests"], named
                assert all(0 < r["p50_ms"] <= r["p99_ms"] for r in named), named
                assert all(r["complete"] == 1.0 for r in named), named
                assert 0 < sum(r["failed"] * r["requests"] for r in named) < expected["requests"], named
            case "4":
                assert {r["service"] for r in named} == set(expected["services"]), named
                assert {r["kind"] for r in named} == set(expected["kinds"]), named
                assert all(r["self_ms_per_request"] > 0 for r in named), named
            case "5":
                told = [(r["host"], r["what"], r["faults"], r["ms"], r["longest_ms"]) for r in named]
                assert told == [tuple(row) for row in expected["faults"]], told
            case "6":
                lines = text.splitlines()
                assert lines[0].endswith(" complete") and len(lines) == 1 + expected["spans_each"], text
                assert lines[1].endswith("[root]"), text
                assert all("(by-rule)" in line and "bytes (observed)" in line for line in lines[2:]), text
                assert "nan" not in text, text
            case "7":
                steps = [r["step"] for r in named]
                assert [r["ms"] for r in named] == sorted(r["ms"] for r in named) and named[0]["ms"] >= 0, named
                assert len({r["task"] for r in named}) >= 2, named
                assert sum(" request " in s for s in steps) >= 2 and any(" reply" in s for s in steps), steps
            case other:
                raise AssertionError(f"a query without a check: {other}")
    assert sorted(done) == ["1", "2", "3", "4", "5", "6", "7", "Names"], done


def main():
    document, expected = sys.argv[1], json.load(open(sys.argv[2], encoding="utf-8"))
    check_names(document)
    check_keys()
    check_queries(document, expected)
    print("ok")


main()
