"""Files that are written by other means than saving: logs, and files that are opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from worldsize.adopting.adopt import adopt_script
from worldsize.adopting.model import Adoption

SCRIPT = (Path(__file__).with_name("scripts") / "argparse_digits.py").read_text(encoding="utf-8")
PARSED = "    args = parser.parse_args()\n"
PLACED = 'os.path.join(args.output, "train.log")'
LOST = "`train.log` is written beside the script, where a job loses it"


def adopt(folder: Path, imports: str, line: str, *, before: bool = False, option: str = "") -> Adoption:
    text = SCRIPT.replace("import argparse\n", f"import argparse\n{imports}\n", 1)
    added = f"    {line}\n{option}{PARSED}" if before else f"{option}{PARSED}    {line}\n"
    script = folder / "train.py"
    script.write_text(text.replace(PARSED, added), encoding="utf-8")
    adoption = adopt_script(script)
    compile(adoption.text, "train.py", "exec")
    return adoption


@pytest.mark.parametrize(
    ("imports", "line"),
    [
        ("import logging", 'log = logging.FileHandler("train.log")'),
        ("import logging", 'logging.getLogger().addHandler(logging.FileHandler(filename="train.log"))'),
        ("import logging", 'logging.basicConfig(filename="train.log", level=logging.INFO)'),
        (
            "from logging.handlers import RotatingFileHandler",
            'log = RotatingFileHandler("train.log", maxBytes=9)',
        ),
        ("import logging", 'logging.basicConfig(handlers=[logging.FileHandler("train.log", mode="a")])'),
        ("", 'log = open("train.log", mode="a")'),
        ("", 'log = open(file="train.log", mode="a")'),
        ("import gzip", 'log = gzip.open("train.log", "at")'),
    ],
)
def test_the_first_process_logs_into_the_output_folder(tmp_path: Path, imports: str, line: str) -> None:
    adoption = adopt(tmp_path, imports, line)
    expected = line.replace('"train.log"', f"{PLACED} if RANK == 0 else os.devnull")
    assert expected.replace(
        "level=logging.INFO)", "level=logging.INFO if RANK == 0"
    ) in adoption.text.replace(" else logging.WARNING)", "")
    assert LOST not in [each.message for each in adoption.obstacles]


def test_a_sink_of_loguru_is_added_by_the_first_process(tmp_path: Path) -> None:
    line = 'logger.add("train.log", rotation="1 MB")'
    text = adopt(tmp_path, "from loguru import logger", line).text
    guarded = line.replace('"train.log"', PLACED)
    assert f"    if RANK == 0:\n        {guarded}\n" in text


@pytest.mark.parametrize("line", ['Path("train.log").write_text("x")', 'log = Path("train.log").open("w")'])
def test_a_path_that_is_written_is_in_the_output_folder(tmp_path: Path, line: str) -> None:
    text = adopt(tmp_path, "from pathlib import Path", line).text
    assert f"Path({PLACED})" in text


@pytest.mark.parametrize(
    ("line", "before", "option"),
    [
        ('logging.basicConfig(filename="train.log")', True, ""),
        (
            'logging.basicConfig(filename="train.log")',
            False,
            "    parser.add_argument('--out', default='x')\n",
        ),
        (
            'logging.config.dictConfig({"f": {"class": "logging.FileHandler", "filename": "train.log"}})',
            False,
            "",
        ),
    ],
)
def test_a_log_that_stays_beside_the_script_is_told(
    tmp_path: Path, line: str, before: bool, option: str
) -> None:
    adoption = adopt(tmp_path, "import logging.config", line, before=before, option=option)
    assert [each.message for each in adoption.obstacles].count(LOST) == 1
    if not option:
        assert 'os.path.join(args.output, "digits_cnn.pt")' in adoption.text


def test_a_log_that_an_option_names_is_the_users(tmp_path: Path) -> None:
    line = "logging.basicConfig(filename=args.out)"
    option = "    parser.add_argument('--out', default='x.log')\n"
    adoption = adopt(tmp_path, "import logging", line, option=option)
    assert "filename=args.out if RANK == 0 else os.devnull" in adoption.text
    assert not any("x.log" in each.message for each in adoption.obstacles)


def test_a_log_of_a_module_beside_is_told(tmp_path: Path) -> None:
    text = 'import logging\ndef setup_logger():\n    logging.basicConfig(filename="train.log")\n'
    (tmp_path / "tools.py").write_text(text, encoding="utf-8")
    adoption = adopt(tmp_path, "from tools import setup_logger", "setup_logger()")
    assert LOST in [each.message for each in adoption.obstacles]
    assert "\n    setup_logger()\n" in adoption.text
