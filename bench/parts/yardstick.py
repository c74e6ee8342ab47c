"""A yardstick for rates: a machine's pace varies, and a pass of CRC-32 over the same bytes varies with it."""

import pathlib
import statistics
import time
import zlib

PASSES = 7
# too short a pass is the clock's, not the machine's
LEAST_S = 0.02


def crc_seconds(*folders):
    """Processor seconds of one pass over all bytes of the files in these folders: the median of some."""
    files = [path for folder in folders for path in sorted(pathlib.Path(folder).rglob("*")) if path.is_file()]
    contents = [path.read_bytes() for path in files]

    def passed(times):
        begun = time.process_time()
        for _ in range(times):
            for content in contents:
                zlib.crc32(content)
        return (time.process_time() - begun) / times

    times = max(1, round(LEAST_S / max(passed(1), 1e-6)))
    return statistics.median(passed(times) for _ in range(PASSES))
