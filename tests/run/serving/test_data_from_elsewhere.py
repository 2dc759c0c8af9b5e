"""Data that notebooks take from public addresses and leave at paths of datastores."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from serving import Served, serving

for module in ("azure.ai.ml", "mlflow"):
    pytest.importorskip(module, reason="pip install 'worldsize[serve,azure,test]'")
pytestmark = [pytest.mark.run, pytest.mark.timeout(240)]

HOST = "public.blob.core.windows.net"
HEAD = """
import json, logging, time, urllib.error, urllib.request
from azure.ai.ml import Input, MLClient, Output, command
from azure.identity import DefaultAzureCredential
logging.disable(logging.WARNING)
ml = MLClient(DefaultAzureCredential(), "s", "g", "w")
ENV = "azureml://registries/azureml/environments/sklearn-1.5/labels/latest"
def run(text, **more):
    made = ml.jobs.create_or_update(command(command=text, environment=ENV, **more))
    while (found := ml.jobs.get(made.name)).status not in ("Completed", "Failed", "Canceled"):
        time.sleep(0.1)
    return found.status.value
"""
STEP = f"""
import os, sys, urllib.request
from azure.ai.ml import MLClient
from azure.ai.ml.entities import Data
from azure.identity import DefaultAzureCredential
content = urllib.request.urlopen("https://{HOST}/data/sets/iris.csv").read().decode()
names = [os.environ["AZUREML_ARM_" + name] for name in ("SUBSCRIPTION", "RESOURCEGROUP", "WORKSPACE_NAME")]
ml = MLClient(DefaultAzureCredential(), *names)
made = Data(name="from-a-step", version="1", type="uri_file", path="step.py", description=content)
ml.data.create_or_update(made)
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / "stand-ins").mkdir()
    (folder / "stand-ins" / "iris.csv").write_text("a,b")
    (folder / "secret.txt").write_text("secret")
    (folder / "stand-ins" / "link.txt").symlink_to("../secret.txt")
    (folder / "step").mkdir()
    (folder / "step" / "step.py").write_text(STEP)
    mapped = f"wasbs://data@{HOST}/sets: ./stand-ins"
    (folder / "worldsize.yml").write_text(f"assets:\n  {mapped}\n")
    with serving(folder) as each:
        yield each


def test_a_download_gets_the_stand_in_of_its_address(served: Served) -> None:
    code = f"""{HEAD}
def get(path):
    try:
        return urllib.request.urlopen(f"https://{HOST}/data/{{path}}").read().decode()
    except urllib.error.HTTPError as error:
        return f"{{error.code}} {{error.read().decode()}}"
asked = ("sets/iris.csv", "other.csv", "sets/link.txt", "sets/%2e%2e/secret.txt")
print(json.dumps([get(each) for each in asked]))
"""
    first, *missing = json.loads(served.python(code).splitlines()[-1])
    assert first == "a,b"
    assert all(each.startswith("4") and "secret<" not in each for each in missing)
    assert f"write `https://{HOST}/data/other.csv: ./FILE` under `assets:`" in missing[0]


def test_an_input_may_have_the_other_spelling_of_the_address(served: Served) -> None:
    code = f"""{HEAD}
data = Input(type="uri_file", path="https://{HOST}/data/sets/iris.csv")
print(run("cat ${{{{inputs.data}}}} && test -f ${{{{inputs.data}}}}", inputs={{"data": data}}))
"""
    assert served.python(code).splitlines()[-1] == "Completed"


def test_a_path_in_a_datastore_has_what_was_written_there_last(served: Served) -> None:
    code = (
        HEAD
        + """
path = "azureml://datastores/workspaceblobstore/paths/here/"
for word in ("one", "two"):
    written = run("echo " + word + " > ${{outputs.out}}/x.txt",
                  outputs={"out": Output(type="uri_folder", path=path)})
    read = run("grep " + word + " ${{inputs.data}}/x.txt",
               inputs={"data": Input(type="uri_folder", path=path)})
    print(written, read)
"""
    )
    assert served.python(code).splitlines()[-2:] == ["Completed Completed"] * 2


def test_the_steps_of_jobs_are_inside_the_workspace(served: Served) -> None:
    """They reach Azure's hosts as little as the program that submits them."""
    code = f"""{HEAD}
print(run("python step.py", code="./step"))
print(ml.data.get("from-a-step", version="1").description)
"""
    assert served.python(code).splitlines()[-2:] == ["Completed", "a,b"]
