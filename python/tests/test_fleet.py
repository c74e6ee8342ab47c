"""Hosts that are linked each in a process of its own answer as one process does, whatever happens to a task."""

import concurrent.futures
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time
import unittest

from support import InFolder, answers, blocks, run, simulate

from wakepath import fleet


class Fleet(InFolder):
    def reduced(self):
        return sorted(path for path in self.out.iterdir() if not path.name.startswith("."))

    def test_many_processes_say_what_one_says(self):
        recordings = simulate(self.place / "recordings", 7, 60)
        expected = answers(recordings)
        outcome = fleet.reduce(random.Random(1).sample(recordings, 7), self.out)
        self.assertEqual([row["host"] for row in outcome], [path.name for path in self.reduced()])
        self.assertEqual([row["error"] for row in outcome], [None] * 7)
        self.assertTrue(all(row["rows"] > 60 and row["bytes"] > 0 and row["cpu_seconds"] > 0 and row["losses"] == {} for row in outcome))
        self.assertEqual(answers(self.reduced()), expected)
        self.assertEqual(answers(self.reduced()[::-1]), expected)
        answer = fleet.ask(self.out, "requests")
        self.assertEqual([answer.text().encode(), answer.json, answer.missing], [*expected[:2], ()])
        self.assertEqual(answer.document["requests"], 420)
        slowest = fleet.ask(self.out, "show", request="slowest")
        self.assertEqual([slowest.text().encode(), slowest.json], expected[-2:])

    def test_all_recordings_of_a_host_are_one_task(self):
        recordings = simulate(self.place / "recordings", 3, 60, recordings=2)
        self.assertEqual(len(recordings), 6)
        # and a folder with several hosts
        run("wakepath", "merge", *recordings[:3], "-o", self.place / "merged")
        recordings = [*recordings[3:], self.place / "merged"]
        hosts = fleet.find_hosts(recordings)
        self.assertEqual([len(host.recordings) for host in hosts], [2, 2, 2])
        outcome = fleet.reduce(recordings, self.out)
        self.assertEqual(answers(self.reduced()), answers(recordings))
        # in another order they are the same
        self.assertEqual(fleet.reduce(recordings[::-1], self.out), outcome)

    def test_two_runs_do_not_share_a_folder(self):
        recordings = simulate(self.place / "recordings", 1, 40)
        with fleet.alone(self.out), self.assertRaisesRegex(fleet.WakepathError, "another run"):
            fleet.reduce(recordings, self.out)
        self.assertEqual([row["error"] for row in fleet.reduce(recordings, self.out)], [None])

    def test_a_task_that_was_killed_runs_again(self):
        recordings = simulate(self.place / "recordings", 2, 6_000)
        host = fleet.plan(recordings, self.out)[0]
        line = f"from wakepath import fleet; fleet.reduce_host({host!r}, {str(self.out)!r})".replace("Host(", "fleet.Host(", 1)
        task = subprocess.Popen([sys.executable, "-c", line])
        limit = time.monotonic() + 60
        while not any(path.joinpath("hosts").exists() for path in self.out.glob(f".{host.name}.*")):
            self.assertIsNone(task.poll(), "it ended too early")
            self.assertLess(time.monotonic(), limit)
            time.sleep(0.001)
        program = int(pathlib.Path(f"/proc/{task.pid}/task/{task.pid}/children").read_text(encoding="ascii").split()[0])
        task.send_signal(signal.SIGKILL)
        task.wait()
        # the program ended with it, in the middle of its work
        while os.path.exists(f"/proc/{program}") and "State:\tZ" not in pathlib.Path(f"/proc/{program}/status").read_text(encoding="ascii"):
            self.assertLess(time.monotonic(), limit)
            time.sleep(0.001)
        self.assertEqual([len(self.left_over()), self.reduced()], [1, []])
        outcome = fleet.reduce(recordings, self.out)
        self.assertEqual([[row["error"] for row in outcome], self.left_over()], [[None, None], []])
        self.assertEqual(answers(self.reduced()), answers(recordings))

    def test_two_attempts_at_once_leave_one_result(self):
        recordings = simulate(self.place / "recordings", 1, 2_000)
        (host,) = fleet.plan(recordings, self.out)
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            one, *others = pool.map(lambda _: fleet.reduce_host(host, self.out), range(3))
        self.assertEqual(others, [one, one])
        self.assertEqual([len(self.reduced()), self.left_over()], [1, []])
        self.assertEqual(answers(self.reduced()), answers(recordings))

    def test_what_is_there_stays_only_if_it_is_of_the_same_recordings(self):
        recordings = simulate(self.place / "recordings", 2, 40)
        first = fleet.reduce(recordings[:1], self.out)
        inode = self.reduced()[0].stat().st_ino
        self.assertEqual(fleet.reduce(recordings, self.out)[0], first[0])
        self.assertEqual(self.reduced()[0].stat().st_ino, inode)
        simulate(self.place / "longer", 2, 400)
        outcome = fleet.reduce([self.place / "longer" / "h00000"], self.out)
        self.assertIn("h00000-68303030: ", outcome[0]["error"])
        self.assertIn("reduced from other recordings", outcome[0]["error"])

    def test_a_host_that_cannot_be_linked_is_named_and_the_others_are_linked(self):
        recordings = simulate(self.place / "recordings", 3, 40)
        expected = answers(recordings[1:])
        (host,) = (recordings[0] / "hosts").iterdir()
        for path in host.glob("*.seg"):
            path.write_bytes(b"no segment")
        outcome = fleet.reduce(recordings, self.out)
        damaged = outcome[0]["losses"] or outcome[0]["error"]
        self.assertTrue(damaged, outcome[0])
        self.assertEqual([row["error"] for row in outcome[1:]], [None, None])
        self.assertIn(host.name, " ".join(fleet.table(outcome)))
        run("rm", "-rf", self.out / host.name)
        answer = fleet.ask(self.out, "requests")
        self.assertEqual([answer.missing, answer.text().encode()], [(host.name,), expected[0]])

    def test_damage_of_a_reduced_host_is_counted(self):
        fleet.reduce(simulate(self.place / "recordings", 2, 400), self.out)
        for path in self.reduced()[0].rglob("*.seg"):
            os.truncate(path, path.stat().st_size * 2 // 3)
        self.assertTrue(fleet.ask(self.out, "requests").document["losses"])

    def test_no_recording_is_an_error(self):
        with self.assertRaisesRegex(fleet.WakepathError, "no trace folder"):
            fleet.reduce([self.place], self.out)
        with self.assertRaisesRegex(fleet.WakepathError, "no host was reduced"):
            self.out.mkdir(exist_ok=True)
            fleet.ask(self.out, "requests")

    def test_memory_is_the_program_s_alone(self):
        recordings = simulate(self.place / "recordings", 1, 1_000)
        ballast = bytearray(os.urandom(1 << 20)) * 300
        (row,) = fleet.reduce(recordings, self.out)
        self.assertEqual(len(ballast), 300 << 20)
        self.assertLess(row["peak_memory_bytes"], 150 << 20)
        self.assertGreater(row["peak_memory_bytes"], 1 << 20)

    def test_the_job_of_the_document_does_the_same(self):
        recordings = simulate(self.place / "recordings", 5, 40)
        (manifest,) = blocks("docs/fleet.md", "yaml")
        tasks = int(manifest.split("completions:")[1].split()[0])
        lines = manifest.split("- |\n")[1].splitlines()
        depth = len(lines[0]) - len(lines[0].lstrip())
        script = "\n".join(line[depth:] for line in lines if line.startswith(" " * depth)).replace("/fleet", str(self.place))
        self.assertIn(f"NR % {tasks} ==", script)
        self.out.mkdir()
        # a task that was killed left a part of a host
        (self.out / ".h00003").mkdir()
        # one of them twice
        for index in [*range(tasks), 1]:
            environment = {**os.environ, "JOB_COMPLETION_INDEX": str(index)}
            done = subprocess.run(["sh", "-euc", script], env=environment, capture_output=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 0, done.stderr.decode())
        self.assertEqual([path.name for path in self.reduced()], [path.name for path in recordings])
        self.assertEqual(answers(self.reduced()), answers(recordings))
        self.assertEqual(json.loads(answers(self.reduced())[1])["requests"], 200)


if __name__ == "__main__":
    unittest.main()
