"""Numbers that a script reads from a file beside it: options set them, and the file goes with the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from worldsize.adopting.adopt import adopt_script
from worldsize.adopting.model import Adoption
from worldsize.adopting.project.files import make_project
from worldsize.adopting.project.spec import ProjectRequest

MORE = Path(__file__).with_name("more")
TEXT = (MORE / "config_file.py").read_text(encoding="utf-8")
NUMBERS = (MORE / "config_file.yaml").read_text(encoding="utf-8")
LOADS = "    with open(args.config) as f:\n        cfg = yaml.safe_load(f)\n"
PARSES = TEXT[TEXT.index("    parser = ") : TEXT.index("    with open")]
PART = 'cfg["train"]'
LOADER = (
    "def load_config(path):\n    with open(path) as f:\n        return yaml.safe_load(f)\n\n\ndef main():"
)


def adopt(folder: Path, text: str, *arguments: str) -> Adoption:
    (folder / "config_file.yaml").write_text(NUMBERS, encoding="utf-8")
    script = folder / "train.py"
    script.write_text(text, encoding="utf-8")
    return adopt_script(script, arguments)


def read_numbers(adoption: Adoption) -> tuple[object, ...]:
    profile = adoption.profile
    return profile.batch_size, profile.learning_rate, profile.epochs


def use_attributes(text: str) -> str:
    for group, key in (("data", "batch_size"), ("train", "lr"), ("train", "epochs")):
        text = text.replace(f'cfg["{group}"]["{key}"]', f"cfg.{group}.{key}")
    return text


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        TEXT.replace(LOADS, "    cfg = yaml.load(open(args.config), Loader=yaml.FullLoader)\n"),
        TEXT.replace("def main():", LOADER).replace(LOADS, "    cfg = load_config(args.config)\n"),
        use_attributes(TEXT.replace(LOADS, '    cfg = OmegaConf.load("config_file.yaml")\n')),
        TEXT.replace('cfg["train"]["lr"]', 'float(cfg["train"].get("lr", 0.1))'),
        TEXT.replace(LOADS, f"{LOADS}    part = {PART}\n").replace(f'{PART}["lr"]', 'part["lr"]'),
        TEXT.replace(PARSES, "").replace("args.config", '"config_file.yaml"'),
        TEXT.replace(PARSES + LOADS, "").replace("def main():", "def main(cfg):").replace(
            "    main()\n", PARSES + LOADS + "    main(cfg)\n"),
    ],
    ids=["with", "open", "function", "attributes", "get", "part", "no parser", "parameter"],
)  # fmt: skip
def test_options_set_the_numbers_of_a_file(text: str, tmp_path: Path) -> None:
    adoption = adopt(tmp_path, text)
    assert read_numbers(adoption) == (64, 0.05, 3)
    assert {flag.role for flag in adoption.profile.flags} >= {"batch_size", "learning_rate", "epochs"}
    assert not adoption.obstacles
    compile(adoption.text, "train.py", "exec", dont_inherit=True)
    assert adoption.text.count(" is not None:") == 3


def test_the_command_line_names_the_file(tmp_path: Path) -> None:
    text = TEXT.replace('default="config_file.yaml"', "required=True")
    assert read_numbers(adopt(tmp_path, text)) == (None, None, None)
    given = ("--config", "config_file.yaml")
    adoption = adopt(tmp_path, text, *given)
    assert read_numbers(adoption) == (64, 0.05, 3)
    project = make_project(
        ProjectRequest(adoption, tmp_path / "train.py", arguments=given), tmp_path, beside=False
    )
    assert project.files["src/config_file.yaml"].decode() == NUMBERS


def test_the_file_goes_with_the_code(tmp_path: Path) -> None:
    request = ProjectRequest(adopt(tmp_path, TEXT), tmp_path / "train.py")
    project = make_project(request, tmp_path, beside=False)
    assert project.files["src/config_file.yaml"].decode() == NUMBERS
    assert b"reference: {batch_size: 64, learning_rate: 0.05}" in project.files["train.yml"]


def test_an_adopted_script_has_the_numbers_of_its_file(tmp_path: Path) -> None:
    again = adopt(tmp_path, adopt(tmp_path, TEXT).text)
    assert again.text == again.source
    assert read_numbers(again) == (64, 0.05, 3)


@pytest.mark.parametrize("content", ["", "[1, 2", "data: 3", "- 1", "data: {batch_size: many}"])
def test_a_file_without_the_numbers_is_left_to_the_author(content: str, tmp_path: Path) -> None:
    adopt(tmp_path, TEXT)
    (tmp_path / "config_file.yaml").write_text(content, encoding="utf-8")
    adoption = adopt_script(tmp_path / "train.py")
    messages = [each.message for each in adoption.obstacles]
    assert "no option sets the batch size here" in messages


def test_a_file_goes_before_the_defaults_of_a_class(tmp_path: Path) -> None:
    defaults = {"batch_size: int": 8, "lr: float": 0.5, "epochs: int": 1, "seed: int": 0, "hidden: int": 32}
    names = "".join(f"    {name} = {value}\n" for name, value in defaults.items())
    class_ = f"@dataclass\nclass Config:\n{names}\n\ndef main():"
    text = TEXT.replace("def main():", class_).replace("yaml.safe_load(f)", "Config(**yaml.safe_load(f))")
    for group in ("data", "train", "model"):
        for key in ("batch_size", "lr", "epochs", "hidden"):
            text = text.replace(f'cfg["{group}"]["{key}"]', f"cfg.{key}")
    adopt(tmp_path, text)
    (tmp_path / "config_file.yaml").write_text(
        "{batch_size: 64, lr: 5e-2, epochs: 3, seed: 1}", encoding="utf-8"
    )
    assert read_numbers(adopt_script(tmp_path / "train.py")) == (64, 0.05, 3)


def test_an_object_keeps_the_numbers_of_a_file(tmp_path: Path) -> None:
    class_ = (
        "class Training:\n    def __init__(self, config):\n        self.cfg = config\n\n    def run(self):"
    )
    text = TEXT.replace("def main():", class_)
    body, _, _ = text.partition("\n\nif __name__")
    head, _, rest = body.partition("    def run(self):\n")
    rest = rest.replace(PARSES + LOADS, "")
    rest = "".join(
        f"    {line}\n" if line else "\n" for line in rest.replace("cfg[", "self.cfg[").split("\n")
    )
    main = 'if __name__ == "__main__":\n' + PARSES + LOADS + "    Training(cfg).run()\n"
    adoption = adopt(tmp_path, f"{head}    def run(self):\n{rest.rstrip()}\n\n\n{main}")
    assert read_numbers(adoption) == (64, 0.05, 3)
    assert '        cfg["train"]["lr"] = args.lr\n' in adoption.text


@pytest.mark.parametrize("read", ["sys.argv[1]", "len(sys.argv)", "OmegaConf.from_cli()"])
def test_a_script_that_reads_its_own_words_gets_no_options(read: str, tmp_path: Path) -> None:
    text = TEXT.replace("import yaml", "import sys\n\nimport yaml\nfrom omegaconf import OmegaConf")
    text = text.replace(PARSES, f"    print({read})\n").replace("args.config", '"config_file.yaml"')
    adoption = adopt(tmp_path, text)
    assert "no option sets the batch size here" in [each.message for each in adoption.obstacles]
    assert not adoption.profile.flags
    assert "parse_args" not in adoption.text


@pytest.mark.parametrize(
    ("path", "is_folder"), [('os.path.join(cfg["out"], "x.pt")', True), ('cfg["out"]', False)]
)
def test_an_option_sets_the_folder_of_a_file(path: str, is_folder: bool, tmp_path: Path) -> None:
    text = TEXT.replace("import yaml", "import os\nimport yaml").replace("\n\nif __name__", "@", 1)
    adopt(tmp_path, text.replace("@", f"    torch.save(model.state_dict(), {path})\n\n\nif __name__"))
    (tmp_path / "config_file.yaml").write_text(f"out: results\n{NUMBERS}", encoding="utf-8")
    adopted = adopt_script(tmp_path / "train.py")
    assert ('        cfg["out"] = args.output\n' in adopted.text) is is_folder
    assert (adopted.profile.flag("output") is not None) is is_folder
