"""The program that runs one job: ``python -m worldsize.serving.jobs.program HOME NAME``.

It writes the states of the job and of those below it into the workspace's database, whether or not the server
is there. The job is claimed by one process only: the one that enters its id into a row without one.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from worldsize.serving.database import Database
from worldsize.serving.home import Home
from worldsize.serving.jobs import records
from worldsize.serving.jobs.execution import execute_job
from worldsize.serving.jobs.process import AlreadyRunsError, hold_job


def main() -> int:
    """Run the job that the arguments name."""
    parser = argparse.ArgumentParser()
    parser.add_argument("home", type=Path)
    parser.add_argument("name")
    parser.add_argument("--environment", choices=("current", "isolated", "docker"), default="current")
    arguments = parser.parse_args()
    home = Home(arguments.home)
    database = Database(home.database)
    try:
        with hold_job(home.jobs / arguments.name):
            if records.enter_process(database, arguments.name):
                execute_job(home, database, arguments.name, arguments.environment)
    except AlreadyRunsError:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
