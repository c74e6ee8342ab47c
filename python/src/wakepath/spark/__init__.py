"""Wakepath on Apache Spark: `reduce` links each host in a task of its own, `requests` and `show` join the hosts on the driver.

This package must be installed on the driver and on every worker. The driver and every worker must see the recordings and `out` by the
same absolute path (`wakepath.fleet` says on what file systems). A task uses one processor and the memory of one `wakepath reduce`, outside the
JVM: `spark.executor.memoryOverhead` has to have room for as many as an executor runs at once.
"""

import dataclasses
import json
import os
import warnings

import pyarrow as pa
from pyspark.sql import SparkSession

from wakepath import fleet
from wakepath.fleet import WakepathError

__all__ = ["Answer", "WakepathError", "reduce", "requests", "show"]

# Columns of the outcome; `wakepath.fleet.reduce` has their meanings.
COLUMNS = pa.schema(
    [
        ("host", pa.string()),
        ("folder", pa.string()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("seconds", pa.float64()),
        ("cpu_seconds", pa.float64()),
        ("peak_memory_bytes", pa.int64()),
        ("losses", pa.map_(pa.string(), pa.int64())),
        ("error", pa.string()),
    ]
)
SPARK_COLUMNS = (
    "host string, folder string, rows long, bytes long, seconds double, cpu_seconds double, peak_memory_bytes long, "
    "losses map<string, long>, error string"
)


def outcome(spark, recordings, out):
    """Runs a task for each host: a list of dicts, as `wakepath.fleet.reduce` gives."""
    out = os.path.abspath(out)
    with fleet.alone(out):
        hosts = fleet.plan(recordings, out)
        rows = tasks(spark, hosts, out)
        fleet.clear(out, hosts)
    return sorted(rows, key=lambda row: row["host"])


def tasks(spark, hosts, out):
    """Links each of the hosts in a task of its own: what is told of them, in any order."""

    def link(batches):
        for batch in batches:
            rows = [fleet.outcome_of(hosts[number], out, is_repeated=True) for number in batch.column("id").to_pylist()]
            yield pa.RecordBatch.from_pylist(rows, schema=COLUMNS)

    # a partition is a task, and this has one number in each; nothing moves rows between them later
    numbers = spark.range(0, len(hosts), 1, len(hosts))
    return [row.asDict() for row in numbers.mapInArrow(link, SPARK_COLUMNS).collect()]


def reduce(spark, recordings, out):
    """Links each host of the `recordings` (a list of trace folders) into a folder of its own in `out`: a DataFrame with a row for each host.

    All recordings of a host are one task. A task writes beside its result and renames it at the end, so one that is killed and repeated, or
    runs twice at once, leaves the same. Runs at once, and not each time that the DataFrame is read. Hosts that are in `out` already, of the same
    recordings, stay: after a failure, call it again.

    Columns: `wakepath.fleet.reduce`. A host that `wakepath reduce` refuses has what it printed in `error`. Raises WakepathError for a folder
    without a host, and where another run links hosts into `out`. If a signal kills `wakepath`, the task fails, and Spark repeats it (`spark.task.maxFailures`).
    """
    return spark.createDataFrame([tuple(row.values()) for row in outcome(spark, recordings, out)], SPARK_COLUMNS)


def command(recordings, out):
    """The same for `python -m wakepath.fleet --spark`, in a session of its own."""
    spark = SparkSession.builder.appName("wakepath reduce").getOrCreate()
    try:
        return outcome(spark, recordings, out)
    finally:
        spark.stop()


@dataclasses.dataclass(frozen=True)
class Answer(fleet.Answer):
    """What `wakepath` says about a fleet, with its lists as DataFrames."""

    spark: SparkSession

    def rows(self, name):
        """A list of the document as a DataFrame, for example `kinds` of `requests`; docs/schemas has the columns. An empty list has none. Pairs of a
        text and a number, such as in `statuses`, are JSON text, since a column has one type.

        Raises KeyError if the document has no such list of objects.
        """
        lists = {key: value for key, value in self.document.items() if isinstance(value, list)}
        rows = lists.get(name)
        if rows is None or not all(isinstance(row, dict) for row in rows):
            raise KeyError(f"{name}: no list of objects in the answer, which has the lists {', '.join(lists)}")
        if not rows:
            return self.spark.createDataFrame([], "struct<>")
        columns = dict.fromkeys(key for row in rows for key in row)
        return self.spark.createDataFrame(pa.table({key: column([row.get(key) for row in rows]) for key in columns}))


def column(values):
    """Values of a document as a column of Arrow; as JSON texts where they have no common type."""
    try:
        return pa.array(values)
    except pa.ArrowException:
        return pa.array([json.dumps(value) for value in values])


def requests(spark, out, *options):
    """Joins the hosts that `reduce` linked into `out`: the Answer of `wakepath requests OPTIONS`, from one process on the driver.

    `answer.rows("kinds")` is a DataFrame, `answer.text()` what people read, `answer.json` the document. Hosts that should be there and are not
    are in `answer.missing`, with a warning; what is damaged is in the document's `losses`. Raises WakepathError with what `wakepath` printed.
    """
    return answered(spark, fleet.ask(out, "requests", *options))


def show(spark, out, request, *options):
    """The same of `wakepath show`: one request, by its id or `slowest`. `answer.rows("spans")` are its spans."""
    return answered(spark, fleet.ask(out, "show", *options, request=request))


def answered(spark, answer):
    """The same answer with a session; warns where hosts are missing."""
    if answer.missing:
        warnings.warn(f"{answer.out} lacks {len(answer.missing)} hosts: {', '.join(answer.missing)}", stacklevel=3)
    fields = {field.name: getattr(answer, field.name) for field in dataclasses.fields(answer)}
    return Answer(**fields, spark=spark)
