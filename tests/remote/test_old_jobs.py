"""What past jobs of the engine leave behind."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from unlabel.remote.engine import remove_old_jobs


def test_only_the_newest_jobs_stay_and_nothing_else_is_touched(tmp_path: Path) -> None:
    jobs = [tmp_path / str(uuid.UUID(int=number)) for number in range(8)]
    for age, job in enumerate(jobs):
        (job / "app").mkdir(parents=True)
        os.utime(job, (age, age))
    for other in ("startup", "local", "a-b-c-d-e"):
        (tmp_path / other).mkdir()
    remove_old_jobs(tmp_path, keep=3)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"startup", "local", "a-b-c-d-e", *(job.name for job in jobs[5:])}
    remove_old_jobs(tmp_path / "none")  # a folder that is not there has no jobs
