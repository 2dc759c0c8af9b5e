"""Azure's storage client, azureml-mlflow, plain MLflow and azure-ai-ml on one workspace's data."""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from serving import Served, serving, start

from worldsize.serving.home import Home
from worldsize.tracking.runs import read_curves, read_latest_metrics, read_params, read_tags

for module in ("azure.ai.ml", "azureml.mlflow", "mlflow"):
    pytest.importorskip(module, reason="pip install 'worldsize[serve,azure,test]'")
pytestmark = [pytest.mark.run, pytest.mark.timeout(240)]

BEGIN = """
import json, os, sys
from azure.ai.ml import MLClient
from azure.ai.ml.entities import Model
from azure.identity import DefaultAzureCredential
ml = MLClient(DefaultAzureCredential(), "s", "g", "w", logging_enable=False)
"""
MLFLOW = f"""{BEGIN}
import mlflow
from pathlib import Path
mlflow.set_tracking_uri(ml.workspaces.get("w").mlflow_tracking_uri)
client = mlflow.MlflowClient()
class Echo(mlflow.pyfunc.PythonModel):
    def predict(self, context, model_input, params=None):
        return model_input
def answers(uri):
    return mlflow.pyfunc.load_model(uri).predict([1]) == [1]
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("served")) as each:
        yield each


@pytest.mark.smoke
def test_the_storage_client_writes_reads_and_lists(served: Served) -> None:
    code = f"""{BEGIN}
from azure.storage.blob import BlobServiceClient
store = ml.datastores.get("workspaceblobstore", include_secrets=True)
url = f"https://{{store.account_name}}.blob.core.windows.net"
service = BlobServiceClient(url, credential=store.credentials.sas_token)
container = service.get_container_client(store.container_name)
assert container.exists()
content = os.urandom(1 << 20) * 70  # more than the client sends at once
blob = container.get_blob_client("f ü/big %")
blob.upload_blob(content, max_concurrency=4, metadata={{"name": "v"}})
assert blob.download_blob(max_concurrency=4).readall() == content
assert blob.download_blob(5, 10).readall() == content[5:15]
assert blob.get_blob_properties().metadata == {{"name": "v"}}
try:
    blob.upload_blob(b"1")
except Exception as error:
    print(str(getattr(error.error_code, "value", error.error_code)))
copy = container.get_blob_client("f ü/copy")
copy.start_copy_from_url(blob.url)
print([each.name for each in container.list_blobs(name_starts_with="f ü/", results_per_page=1)])
copy.delete_blob()
print(copy.exists(), [each.name for each in container.walk_blobs()])
"""
    said = served.python(code).splitlines()
    assert said[:2] == ["BlobAlreadyExists", "['f ü/big %', 'f ü/copy']"]
    assert said[2].startswith("False [")
    assert "'f ü/'" in said[2]


def test_a_run_of_azureml_mlflow_is_read_back(served: Served) -> None:
    code = f"""{MLFLOW}
mlflow.set_experiment("first / é")
with mlflow.start_run(run_name="r") as run:
    mlflow.log_param("a", 1)
    mlflow.log_metric("m", 1.5, step=1)
    mlflow.log_metric("m", float("nan"), step=2)
    mlflow.set_tag("t", "v")
    mlflow.log_text("text", "d e/x %.txt")
    mlflow.pyfunc.log_model(
        name="model", python_model=Echo(), registered_model_name="echo", pip_requirements=[]
    )
    with mlflow.start_run(nested=True) as child:
        mlflow.log_metrics({{"k": 1, "l": 2}})
assert run.info.artifact_uri.startswith("azureml://eastus.api.azureml.ms/artifact/v2.0/"), run.info
assert mlflow.artifacts.load_text(f"runs:/{{run.info.run_id}}/d e/x %.txt") == "text"
assert answers("models:/echo/1") and answers(f"runs:/{{run.info.run_id}}/model")
children = f"tags.mlflow.parentRunId = '{{run.info.run_id}}'"
assert len(client.search_runs([run.info.experiment_id], children)) == 1
folder = Path("saved")
mlflow.pyfunc.save_model(folder, python_model=Echo(), pip_requirements=[])
client.log_artifacts(run.info.run_id, str(folder), "plain")
for source in (f"{{run.info.artifact_uri}}/plain", folder.absolute().as_uri()):
    version = mlflow.register_model(source, "echo")
    assert version.source.startswith("azureml://") and answers(f"models:/echo/{{version.version}}")
client.set_registered_model_alias("echo", "best", 2)
assert answers("models:/echo@best")
print(json.dumps([run.info.run_id, [each.path for each in client.list_artifacts(run.info.run_id)]]))
"""
    run, artifacts = json.loads(served.python(code).splitlines()[-1])
    assert artifacts == ["d e", "plain"]
    home = served.home
    assert read_curves(home, run)["m"] == [(1.0, 1.5)]
    assert str(read_latest_metrics(home, run)["m"]) == "nan"
    assert read_params(home, run) == {"a": "1"}
    assert read_tags(home, run)["t"] == "v"
    assert read_curves(home, "none") == {}


def test_models_are_in_one_registry(served: Served) -> None:
    code = f"""{MLFLOW}
mlflow.pyfunc.save_model("one", python_model=Echo(), pip_requirements=[])
made = ml.models.create_or_update(Model(name="both", path="one", type="mlflow_model", tags={{"k": "v"}}))
seen = client.get_model_version("both", made.version)
assert (seen.tags, made.version) == ({{"k": "v"}}, "1") and answers("models:/both/1")
with mlflow.start_run() as run:
    mlflow.log_artifacts("one", "plain")
client.create_model_version("both", f"{{run.info.artifact_uri}}/plain", run.info.run_id, tags={{"n": "w"}})
second = ml.models.get("both", "2")
assert (second.type, second.tags, "python_function" in second.flavors) == ("mlflow_model", {{"n": "w"}}, True)
for each in (ml.models.get("both", "1"), second):
    made = client.get_model_version("both", each.version).creation_timestamp
    assert abs(each.creation_context.created_at.timestamp() * 1000 - made) <= 1, (each.version, made)
ml.models.download("both", "2", download_path="down")
assert list(Path("down").rglob("MLmodel"))
client.set_model_version_tag("both", "1", "k", "changed")
assert ml.models.get("both", "1").tags == {{"k": "changed"}}
second.description = "said here"
ml.models.create_or_update(second)
assert client.get_model_version("both", "2").description == "said here"
custom = ml.models.create_or_update(Model(name="both", path="one", type="custom_model"))
named = ml.models.create_or_update(Model(name="both", version="v1", path="one", type="custom_model"))
assert custom.version == "3", custom.version
client.delete_model_version("both", "1")
print(sorted(each.version for each in ml.models.list("both")))
print(sorted(each.version for each in client.search_model_versions("name = 'both'")))
"""
    assert served.python(code).splitlines()[-2:] == ["['2', '3', 'v1']", "['2', '3']"]


def test_plain_mlflow_works_by_address_and_token(served: Served) -> None:
    code = f"""
import os, mlflow
from azure.identity import DefaultAzureCredential
os.environ["MLFLOW_TRACKING_TOKEN"] = DefaultAzureCredential().get_token("https://management.azure.com/.default").token
mlflow.set_tracking_uri("{served.address}/mlflow/v2.0")
with mlflow.start_run() as run:
    mlflow.log_text("text", "a/b.txt")
client = mlflow.MlflowClient()
print([each.path for each in client.list_artifacts(run.info.run_id, "a")])
print(mlflow.artifacts.load_text(f"{{run.info.artifact_uri}}/a/b.txt"))
"""
    assert served.python(code).splitlines()[-2:] == ["['a/b.txt']", "text"]


def test_a_killed_server_shows_no_half_blob_and_leaves_no_process(tmp_path: Path) -> None:
    served = start(tmp_path)
    try:
        code = f"""{BEGIN}
import itertools
from azure.storage.blob import BlobServiceClient
store = ml.datastores.get("workspaceblobstore", include_secrets=True)
url = f"https://{{store.account_name}}.blob.core.windows.net"
service = BlobServiceClient(url, credential=store.credentials.sas_token, retry_total=0)
container = service.get_container_client(store.container_name)
content = b"x" * (8 << 20)
for number in itertools.count():
    container.upload_blob(f"b{{number}}", content)
    print(number, flush=True)
"""
        done: list[str] = []
        client = threading.Thread(target=lambda: done.append(served.run(sys.executable, "-c", code).stdout))
        client.start()
        blobs = Home(served.home).blobs / "azureml-blobstore"
        while not (blobs / "b3").exists():
            time.sleep(0.01)
        children = [each.pid for each in psutil.Process(served.process.pid).children(recursive=True)]
        served.stop(signal.SIGKILL)
        client.join()
    finally:
        served.process.kill()
        assert served.process.stdout is not None
        served.process.stdout.close()
    answered = done[0].split()
    assert len(answered) >= 3
    assert all((blobs / f"b{number}").stat().st_size == 8 << 20 for number in answered)
    assert {each.stat().st_size for each in blobs.iterdir()} == {8 << 20}
    deadline = time.monotonic() + 30
    while any(psutil.pid_exists(each) for each in children):
        assert time.monotonic() < deadline, "a process outlived the server"
        time.sleep(0.1)
