"""Hosts that are linked as tasks of a Spark cluster (a master and two workers) answer as one process does, also where a task is killed."""

import json
import os
import pathlib
import signal
import sys
import tempfile
import unittest
import unittest.mock
import warnings

from pyspark.sql import SparkSession
from support import InFolder, answers, simulate

import wakepath.spark
from wakepath.spark.local import cluster


# Stands for `wakepath` on the workers. While the file `kill-once` is there, the first task to remove it dies with its worker of Python, as if
# memory were short, after its program began to write.
PROGRAM = """#!/bin/sh
cd "$(dirname "$0")"
if test "$1" = reduce && rm kill-once 2>/dev/null; then
    for part; do :; done
    mkdir -p "$part/hosts"
    kill -KILL $PPID
    sleep 60
fi
exec "%s" "$@"
"""


def setUpModule():
    # ended as by Ctrl-C, so that the cluster ends too
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    folder = pathlib.Path(unittest.enterModuleContext(tempfile.TemporaryDirectory(prefix="wakepath-test-")))
    Spark.kill_once = folder / "kill-once"
    stands_in = folder / "wakepath"
    stands_in.write_text(PROGRAM % wakepath.program(), encoding="ascii")
    stands_in.chmod(0o755)
    with unittest.mock.patch.dict(os.environ, {"WAKEPATH_PROGRAM": str(stands_in)}):
        environment = unittest.enterModuleContext(cluster())
    os.environ.update(environment)
    unittest.addModuleCleanup(lambda: SparkSession.builder.getOrCreate().stop())


class Spark(InFolder):
    def setUp(self):
        super().setUp()
        self.spark = SparkSession.builder.getOrCreate()

    def reduced(self):
        return sorted(path for path in self.out.iterdir() if not path.name.startswith("."))

    def test_tasks_say_what_one_process_says(self):
        recordings = simulate(self.place / "recordings", 6, 60, recordings=2)
        expected = answers(recordings)
        outcome = wakepath.spark.reduce(self.spark, recordings, self.out)
        rows = outcome.collect()
        self.assertEqual([row.host for row in rows], [path.name for path in self.reduced()])
        self.assertEqual([(row.error, row.losses) for row in rows], [(None, {})] * 6)
        self.assertTrue(all(row.peak_memory_bytes > 1 << 20 and row.cpu_seconds > 0 for row in rows))
        self.assertEqual(outcome.selectExpr("sum(rows) > 0").first()[0], True)
        self.assertEqual(answers(self.reduced()), expected)
        answer = wakepath.spark.requests(self.spark, self.out)
        self.assertEqual([answer.text().encode(), answer.json, answer.missing], [*expected[:2], ()])
        self.assertEqual(answer.rows("kinds").selectExpr("sum(`count`)").first()[0], 360)
        slowest = wakepath.spark.show(self.spark, self.out, "slowest")
        self.assertEqual([slowest.text().encode(), slowest.json], expected[-2:])
        self.assertEqual(slowest.rows("spans").count(), 3)
        # what the cut between two recordings left without a caller; `why` has pairs of a text and a number
        orphans = answer.document["orphans"]
        self.assertEqual([json.loads(row.why) for row in answer.rows("orphans").collect()], [orphan["why"] for orphan in orphans])
        self.assertEqual([len(orphans) > 0, answer.rows("starved").count()], [True, 0])
        with self.assertRaisesRegex(KeyError, "kinds"):
            answer.rows("losses_by_host")
        # and once more: nothing is done again
        self.assertEqual(wakepath.spark.reduce(self.spark, recordings[::-1], self.out).collect(), rows)

    def test_a_task_that_was_killed_is_repeated(self):
        recordings = simulate(self.place / "recordings", 4, 400)
        self.kill_once.touch()
        rows = wakepath.spark.reduce(self.spark, recordings, self.out).collect()
        self.assertFalse(self.kill_once.exists())
        self.assertEqual([row.error for row in rows], [None] * 4)
        self.assertEqual(self.left_over(), [])
        self.assertEqual(answers(self.reduced()), answers(recordings))

    def test_hosts_that_cannot_be_linked_or_are_missing_are_named(self):
        recordings = simulate(self.place / "recordings", 3, 40)
        expected = answers(recordings[1:])
        refused = self.out / "h00000-68303030"
        refused.mkdir(parents=True)
        rows = wakepath.spark.reduce(self.spark, recordings, self.out).collect()
        self.assertIn("h00000-68303030: ", rows[0].error)
        self.assertEqual([row.error for row in rows[1:]], [None, None])
        refused.rmdir()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            answer = wakepath.spark.requests(self.spark, self.out)
        self.assertEqual([answer.missing, answer.text().encode()], [("h00000-68303030",), expected[0]])
        self.assertIn("h00000-68303030", " ".join(str(warning.message) for warning in said))


if __name__ == "__main__":
    unittest.main()
