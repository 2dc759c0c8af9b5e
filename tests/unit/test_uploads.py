"""What check says of a code folder: repositories, environments, secrets, sizes, and what is left out."""

from __future__ import annotations

from pathlib import Path

import pytest

import worldsize

JOB = """\
$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json
command: python train.py
environment: azureml:e:1
compute: azureml:c
code: CODE
"""
SPEC = """\
name: digits
compute:
  gpu: {target: azureml:gpu-cluster, instance_type: Standard_NC96ads_A100_v4}
steps:
  shard:
    uses: shard_data
    compute: gpu
    code: ./src
    with: {source: builtin:digits}
"""


@pytest.fixture
def src(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The code folder of a checkout."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    folder = tmp_path / "src"
    folder.mkdir()
    (folder / "train.py").write_text("print('hello')")
    return folder


def put(folder: Path, size: int, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.truncate(size)


def said(code: str = "./src") -> list[str]:
    """The findings about a code folder, each at the token that names it."""
    Path("job.yml").write_text(JOB.replace("CODE", code))
    found = [
        each for each in worldsize.check(["job.yml"]).diagnostics if each.code.startswith(("WS83", "WS84"))
    ]
    assert all(str(each.span).endswith("job.yml:5:7") for each in found)
    return [f"{each.code} {each.message}" for each in found]


def test_a_repository_is_named_with_its_size(src: Path) -> None:
    put(src, 1_500_000, ".git/objects/pack/a.pack", ".git/objects/pack/b.pack")
    assert said() == ["WS836 `.git` (a repository, 3.0 MB) is uploaded with `src`"]


@pytest.mark.parametrize(
    "name", [".venv/lib/x.py", "node_modules/x/index.js", "venv/pyvenv.cfg", "deep/conda/conda-meta/x.json"]
)
def test_an_environment_is_named_with_its_size(src: Path, name: str) -> None:
    put(src, 70_000_000, name)  # over the limit, but one cause is one finding
    root = name.split("/conda-meta", maxsplit=1)[0] if "conda" in name else name.split("/", 1)[0]
    assert said() == [f"WS837 `{root}` (installed packages, 70.0 MB) is uploaded with `src`"]


def test_more_than_50_mb_are_named_by_what_has_most_of_it(src: Path) -> None:
    put(src, 20_000_000, "runs/1.pt", "runs/2.pt", "data.bin")
    assert said() == ["WS838 60.0 MB are uploaded with `src`, more than 50.0 MB: `runs` has 40.0 MB of it"]
    (src / ".amlignore").write_text("runs/\n")
    assert said() == []


@pytest.mark.parametrize(
    "name",
    [".env", ".env.production", "prod.env", "id_rsa", "keys/id_ed25519", "server.pem", "cert.pfx",
    ".azure/msal_token_cache.bin",
     ".aws/credentials", ".kube/config", "kubeconfig", ".netrc", ".pypirc", ".git-credentials",
     "credentials.json", "kaggle.json",
     "secrets.yaml", "terraform.tfstate", ".docker/config.json", "client_secret_1.json"],
)  # fmt: skip
def test_a_file_with_secrets_is_named(src: Path, name: str) -> None:
    put(src, 64, name)
    assert said() == [f"WS835 `{name}` (64 B), which usually holds secrets, is uploaded with `src`"]


@pytest.mark.parametrize(
    "name",
    [".env.example", "env.py", "environment.yml", "id_rsa.pub", "credentials.py", "secrets.py",
    "tokens.txt", "config.json",
     "tokenizer.json", "key.py", "monkey.key", ".env.template", "env", "kubeconfig.md"],
)  # fmt: skip
def test_other_files_are_not(src: Path, name: str) -> None:
    put(src, 64, name)
    assert said() == []


def test_certificates_are_no_secrets_and_private_keys_are(src: Path) -> None:
    (src / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\nMII\n")
    (src / "empty.pem").write_text("")
    assert said() == []
    (src / "tls.key").write_text("-----BEGIN PRIVATE KEY-----\nMII\n")
    assert said() == ["WS835 `tls.key` (32 B), which usually holds secrets, is uploaded with `src`"]


def test_the_help_names_the_ignore_file_that_counts(src: Path) -> None:
    put(src, 64, ".env")
    Path(".gitignore").write_text(".env\n")  # git leaves it out, Azure ML does not
    Path("job.yml").write_text(JOB.replace("CODE", "./src"))
    helps = [each.help for each in worldsize.check(["job.yml"]).diagnostics if each.code == "WS835"]
    assert helps == ["add `.env` to `src/.amlignore`: Azure ML does not read ignore files of parent folders"]
    (src / ".gitignore").write_text("*.pyc\n")
    helps = [each.help for each in worldsize.check(["job.yml"]).diagnostics if each.code == "WS835"]
    assert helps == ["add `.env` to `src/.gitignore`: Azure ML does not read ignore files of parent folders"]


def test_includes_and_code_that_a_spec_adds_count_too(src: Path) -> None:
    put(src, 64, ".env")
    Path("spec.yml").write_text(SPEC)
    found = [each for each in worldsize.check(["spec.yml"]).diagnostics if each.code == "WS835"]
    assert [str(each.span) for each in found] == ["spec.yml:8:11"]
    Path("c").mkdir()
    component = JOB.replace("commandJob", "commandComponent").replace("compute: azureml:c\ncode: CODE\n", "")
    Path("c/component.yml").write_text(
        f"{component}type: command\nname: c\nversion: '1'\nadditional_includes:\n  - ../src\n"
    )
    found = [each for each in worldsize.check(["c/component.yml"]).diagnostics if each.code == "WS835"]
    assert [str(each.span) for each in found] == ["c/component.yml:8:5"]


def test_compile_says_it_too(src: Path) -> None:
    put(src, 64, ".env")
    Path("spec.yml").write_text(SPEC)
    assert "WS835" in [each.code for each in worldsize.compile("spec.yml", "build").warnings]
