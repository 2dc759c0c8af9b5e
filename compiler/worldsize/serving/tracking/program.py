"""The process of MLflow's server: ``python -m worldsize.serving.tracking.program HOME DESCRIPTOR``.

It serves on a socket that it inherits, so requests wait in the socket's queue while MLflow is imported, and
ends when its input does, so a killed parent leaves no server.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

from worldsize.tracking.database import DATABASE, prepared_database


def _load_application(home: Path) -> Any:
    """MLflow's application, on the database that ``worldsize run`` uses too."""
    with prepared_database(home):
        pass
    os.environ["MLFLOW_SERVER_DISABLE_SECURITY_MIDDLEWARE"] = "true"  # requests were judged before
    os.environ["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] = "false"
    database, artifacts = f"sqlite:///{home / DATABASE}", (home / "artifacts").as_uri()
    os.environ |= {"_MLFLOW_SERVER_FILE_STORE": database, "_MLFLOW_SERVER_ARTIFACT_ROOT": artifacts}
    from mlflow.server.handlers import initialize_backend_stores

    initialize_backend_stores(database, database, artifacts)
    from mlflow.server.fastapi_app import app

    return app


def _end_with_input() -> None:
    """End the process when its standard input ends."""
    os.read(0, 1)
    os._exit(0)


def main() -> None:
    """Serve until the input ends."""
    import uvicorn

    home, descriptor = Path(sys.argv[1]), int(sys.argv[2])
    threading.Thread(target=_end_with_input, daemon=True).start()
    config = uvicorn.Config(_load_application(home), fd=descriptor, log_level="warning", access_log=False)
    uvicorn.Server(config).run()


if __name__ == "__main__":
    main()
