"""The commands of docs/fleet.md, one after the other: fifty hosts in processes, then as tasks of a Spark cluster that the command starts."""

import os
import pathlib
import subprocess
import sys
import unittest

from support import InFolder, blocks, run


class Document(InFolder):
    def test_the_commands_of_the_document_work(self):
        scripts = blocks("docs/fleet.md", "sh")
        # installing is what whoever runs this test has done
        commands = [line for script in scripts for line in script.splitlines() if not line.startswith("pip install")]
        environment = {**os.environ, "PATH": os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])}
        said = []
        for command in commands:
            done = subprocess.run(["sh", "-euc", f"exec {command}"], cwd=self.place, env=environment, capture_output=True, timeout=600, check=False)
            self.assertEqual(done.returncode, 0, f"{command}\n{done.stderr.decode()}")
            said.append(done.stdout)
        folders = sorted((self.place / "recordings").iterdir())
        self.assertEqual(len(folders), 50)
        expected = run("wakepath", "requests", *folders)
        self.assertIn(expected, said)
        self.assertEqual(run("wakepath", "requests", *sorted((self.place / "reduced-by-spark").glob("h*"))), expected)


if __name__ == "__main__":
    unittest.main()
