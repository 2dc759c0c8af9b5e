"""Options are read where the script keeps them: an attribute, a mapping, another name; or passed on."""

from __future__ import annotations

from textwrap import indent

import pytest
from adopt_text import adopt_text

LOADER = "loader = DataLoader(TensorDataset(torch.randn(64, 4)), batch_size={size}, shuffle=True)"
STEP = """\
            loss = {model}(x).pow(2).mean()
            {optimizer}.zero_grad()
            loss.backward()
            {optimizer}.step()
"""
HEAD = "import argparse\n\nimport torch\nfrom torch.utils.data import DataLoader, TensorDataset\n\n"
PARSER = """
def get_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--bs", type=int, default=8)
    {parse}


"""
TRAINER = f"""\
class Trainer:
    def __init__(self, given, model):
        {{keep}}
        self.model = model
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def train(self, loader):
        for epoch in range(3):
            for (x,) in loader:
{indent(STEP.format(model="self.model", optimizer="self.optimizer"), " " * 4)}
            torch.save(self.model, "model.pt")


"""
PARSED = ("return parser.parse_args()", "args = parser.parse_args()\n    return args")


def start(parse: str, given: str) -> str:
    lines = [
        f"args = {parse}",
        LOADER.format(size="args.bs"),
        f"Trainer({given}, torch.nn.Linear(4, 1)).train(loader)",
    ]
    return "\n\ndef main():\n    " + "\n    ".join(lines) + "\n\n\nmain()\n"


@pytest.mark.parametrize("parse", PARSED, ids=["at once", "by a name"])
@pytest.mark.parametrize(
    ("keep", "given", "read"),
    [
        ("self.args = given", "args", "self.args.{}"),
        ("self.cfg: argparse.Namespace = given", "args", "self.cfg.{}"),
        ("self.hparams = vars(given)", "args", 'self.hparams["{}"]'),
        ("self.config = given", "vars(args)", 'self.config["{}"]'),
    ],
)
def test_a_method_reads_what_its_object_keeps(parse: str, keep: str, given: str, read: str) -> None:
    adoption = adopt_text(
        HEAD + PARSER.format(parse=parse) + TRAINER.format(keep=keep) + start("get_args()", given)
    )
    output, folder = read.format("output"), read.format("checkpoints")
    assert f'latest = os.path.join({folder}, "latest.pt") if {folder} else ""\n' in adoption.text
    assert f'torch.save(self.model, os.path.join({output}, "model.pt"))' in adoption.text
    assert 'parser.add_argument(\n        "--checkpoints"' in adoption.text
    assert [each.message for each in adoption.obstacles if "checkpoints" in each.message] == []


@pytest.mark.parametrize(
    "keep",
    ["self.args = given\n        self.args = None", "self.args = given.model", "self.lr = given.lr"],
    ids=["assigned twice", "a part", "copied"],
)
def test_what_is_perhaps_not_the_options_is_passed_by_a_parameter(keep: str) -> None:
    text = HEAD + PARSER.format(parse=PARSED[0]) + TRAINER.format(keep=keep) + start("get_args()", "args")
    adopted = adopt_text(text).text
    assert "    def train(self, loader, checkpoints=None):\n" in adopted
    assert ".train(loader, checkpoints=args.checkpoints)\n" in adopted


MAIN = f"""\
def main({{taken}}):
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    {LOADER.format(size=8)}
    for epoch in range(3):
        for (x,) in loader:
{STEP.format(model="model", optimizer="optimizer")}

"""


@pytest.mark.parametrize(
    ("parse", "taken", "call", "read"),
    [
        (PARSED[0], "args", "main(get_args())", "args.{}"),
        (PARSED[1], "cfg", "main(get_args())", "cfg.{}"),
        (PARSED[1], "cfg", "main(vars(get_args()))", 'cfg["{}"]'),
        ("return vars(parser.parse_args())", "cfg", "config = get_args()\nmain(config)", 'config["{}"]'),
        ("return parser.parse_known_args()[0]", "opt", "args = get_args()\nmain(args)", "args.{}"),
        ("args, _ = parser.parse_known_args()\n    return args", "opt", "main(get_args())", "opt.{}"),
    ],
)
def test_a_function_gets_what_is_parsed(parse: str, taken: str, call: str, read: str) -> None:
    adoption = adopt_text(HEAD + PARSER.format(parse=parse) + MAIN.format(taken=taken) + call + "\n")
    assert f'latest = os.path.join({read.format("checkpoints")}, "latest.pt")' in adoption.text
    assert f"range(start_epoch, {read.format('epochs')})" not in adoption.text  # beside the script's own
    assert adoption.profile.flag("checkpoints") is not None


def test_a_function_in_a_function_reads_the_options_around_it() -> None:
    body = indent(MAIN.format(taken="").rstrip().replace("def main", "def inner"), " " * 4)
    main = f"def main():\n    args = get_args()\n{body}\n    inner()\n\n\nmain()\n"
    text = HEAD + PARSER.format(parse=PARSED[0]) + main
    adopted = adopt_text(text).text
    assert 'latest = os.path.join(args.checkpoints, "latest.pt")' in adopted


def test_a_parameter_that_is_added_is_no_variable_of_the_script() -> None:
    text = f"{HEAD}import click\n\n\n@click.command()\n@click.option('--epochs', default=3)\n"
    text += (
        MAIN.format(taken="epochs") + "    output = model(x)\n    torch.save(output, 'x.pt')\n\n\nmain()\n"
    )
    adopted = adopt_text(text.replace("range(3)", "range(epochs)")).text
    assert "def main(epochs, batch_size, lr, output_folder, checkpoints):" in adopted
    assert "os.path.join(output_folder, 'x.pt')" in adopted


def test_what_a_trainer_takes_by_keywords_is_followed() -> None:
    text = HEAD + PARSER.format(parse=PARSED[0]) + TRAINER.format(keep='self.args = kwargs["args"]')
    text = text.replace("self, given, model", "self, **kwargs").replace(
        "self.model = model", 'self.model = kwargs["model"]'
    )
    text = text.replace("torch.optim.SGD(self.model.parameters(), lr=0.1)", 'kwargs["optimizer"]')
    lines = ["args = get_args()", LOADER.format(size="args.bs"), "model = torch.nn.Linear(4, 1)"]
    lines += ["optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)"]
    lines += ["Trainer(model=model, optimizer=optimizer, args=args).train(loader)"]
    main = "def main():\n    " + "\n    ".join(lines) + "\n\n\nmain()\n"
    adopted = adopt_text(text + main).text

    assert "        self.ddp_model = DistributedDataParallel(self.model)\n" in adopted
    assert 'latest = os.path.join(self.args.checkpoints, "latest.pt")' in adopted
