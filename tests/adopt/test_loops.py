"""Loops that no `for` over a loader counts, what loops collect and report, and their schedules."""

from __future__ import annotations

from pathlib import Path

import pytest
from adopt_text import PLAIN, adopt_text

from worldsize.adopting.model import AdoptError

MORE = Path(__file__).with_name("more")
LOOP = PLAIN.decode()
HEAD, _, TAIL = LOOP.partition("for epoch in range(EPOCHS):\n")


def read(name: str) -> str:
    return (MORE / f"{name}.py").read_text(encoding="utf-8")


def list_left(text: str) -> list[str]:
    return [each.message for each in adopt_text(text).obstacles]


@pytest.mark.parametrize(
    ("head", "step"),
    [
        ("while epoch < EPOCHS:", "epoch += 1"),
        ("while epoch < EPOCHS:", "epoch = epoch + 1"),
        ("while True:", "epoch += 1\n    if epoch >= EPOCHS:\n        break"),
    ],
)
def test_epochs_of_while_are_set_by_an_option_and_resumed(head: str, step: str) -> None:
    body, _, rest = TAIL.partition("\ntorch.save")
    adoption = adopt_text(f"{HEAD}epoch = 0\n{head}\n{body}    {step}\ntorch.save{rest}")
    assert adoption.profile.flag("epochs") is not None
    assert f"\n{head}\n    train_dl.sampler.set_epoch(epoch)\n" in adoption.text
    assert '    epoch = state["epoch"]\n' in adoption.text
    assert '"epoch": epoch,' in adoption.text


def test_a_while_without_a_counter_is_refused() -> None:
    with pytest.raises(AdoptError, match="this `while` counts no epochs"):
        adopt_text(f"{HEAD}better = True\nwhile better:\n{TAIL}")


def test_steps_of_while_name_the_order_of_each_epoch() -> None:
    adoption = adopt_text(read("while_max_steps"))
    assert "loader.sampler.set_epoch(step)" in adoption.text
    assert adoption.profile.flag("epochs") is None
    assert any("counts steps" in each.message for each in adoption.obstacles)


def test_itertools_cycle_keeps_its_order_and_is_told() -> None:
    text = read("cycled_loader").replace("= cycle(loader)", "= itertools.cycle(loader)")
    text = text.replace("import argparse\n", "import argparse\nimport itertools\n")
    assert "itertools.cycle(loader)" in adopt_text(text).text
    assert "set_epoch" not in adopt_text(text).text
    assert any("repeats the batches of the first epoch" in each for each in list_left(text))


def test_a_generator_that_serves_two_loaders_is_refused() -> None:
    text = read("cycled_loader").replace("batches = cycle(loader)", "batches = cycle(loader)\n    cycle([1])")
    with pytest.raises(AdoptError, match="`cycle` repeats a second loader here"):
        adopt_text(text)


@pytest.mark.parametrize("head", ["zip(train_dl, other)", "zip(train_dl, itertools.cycle(other))"])
def test_a_second_loader_in_a_loop_is_refused(head: str) -> None:
    text = LOOP.replace("for xb, yb in train_dl:", f"for (xb, yb), _ in {head}:")
    text = text.replace(
        "for epoch in", "other = DataLoader(train_ds, batch_size=8, shuffle=True)\nfor epoch in"
    )
    with pytest.raises(AdoptError, match="feeds this loop too"):
        adopt_text(f"import itertools\n{text}")


INLINE = LOOP.replace("in train_dl:", "in DataLoader(train_ds, batch_size=BATCH_SIZE, shuffle=True):")


def test_a_loader_without_a_name_gets_one_before_its_loop() -> None:
    adopted = adopt_text(INLINE).text
    assert (
        """\
    train_loader = DataLoader(train_ds, batch_size=BATCH_SIZE, sampler=DistributedSampler(train_ds))
    train_loader.sampler.set_epoch(epoch)
    for xb, yb in train_loader:
"""
        in adopted
    )


def test_two_loaders_without_a_name_are_refused() -> None:
    loader = "DataLoader(train_ds, batch_size=8, shuffle=True)"
    text = LOOP.replace("for xb, yb in train_dl:", f"for (xb, yb), _ in zip({loader}, {loader}):")
    with pytest.raises(AdoptError, match="feeds this loop too"):
        adopt_text(text)


def test_a_loader_that_is_made_each_epoch_gets_the_epoch_from_its_function() -> None:
    text = read("inline_loader").replace("batch_size):", "batch_size, number):")
    text = text.replace("args.bs)", "args.bs, epoch)")
    assert "    train_loader.sampler.set_epoch(number)\n" in adopt_text(text).text


def test_inner_steps_exchange_gradients_once() -> None:
    line = "ddp_model.require_backward_grad_sync = micro_step == gradient_accumulation_steps - 1\n"
    assert line in adopt_text(read("micro_steps")).text


def test_samples_are_changed_apart() -> None:
    text = read("own_random")
    assert "    random.seed(1 + RANK)\n    np.random.seed(1 + RANK)\n" in adopt_text(text).text


def test_an_order_that_all_draw_alike_keeps_its_seed() -> None:
    text = read("own_random").replace(
        "        losses = []\n", "        random.shuffle(order)\n        losses = []\n"
    )
    adoption = adopt_text(text)
    assert "random.seed(1 + RANK)\n    np" not in adoption.text
    assert any("changes the samples of all processes alike" in each.message for each in adoption.obstacles)


def test_a_list_of_losses_is_of_all_rows() -> None:
    assert "        losses[:] = average(losses)\n" in adopt_text(read("own_random")).text


@pytest.mark.parametrize("loader", ["test_loader", "train_loader"])
def test_what_an_evaluation_between_steps_counts_is_of_all_rows(loader: str) -> None:
    left = list_left(read("downloaded_digits").replace("in test_loader:", f"in {loader}:"))
    told = "`right` is of the rows of the first process here" in left
    assert told is (loader == "train_loader")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("losses.append(loss.item())", "if loss < 1:\n                losses.append(loss.item())"),
        ("losses.append(loss.item())", "losses.append(loss.detach())"),
        ("losses.append(loss.item())", "losses.append((y == 1).sum().item())"),
    ],
)
def test_a_list_that_may_differ_is_told(before: str, after: str) -> None:
    adoption = adopt_text(read("own_random").replace(before, after))
    assert "average(losses)" not in adoption.text
    assert "`losses` is of the rows of the first process here" in [
        each.message for each in adoption.obstacles
    ]


def test_a_meter_that_is_read_behind_the_loop_is_of_all_rows() -> None:
    text = read("meters")
    assert "losses.sum, losses.count = add_up(losses.sum), add_up(losses.count)" in adopt_text(text).text
    derived = text.replace("        self.avg = 0\n", "").replace(
        "        self.avg = self.sum / self.count\n", ""
    )
    assert "losses.avg = " not in adopt_text(derived).text  # its class derives it


def test_a_best_result_that_is_global_is_resumed() -> None:
    text = "\n".join(line for line in read("meters").splitlines() if "optimizer.load_state_dict" not in line)
    assert '        best_acc1 = state_["best_acc1"]\n' in adopt_text(text).text


@pytest.mark.parametrize("folder", ["models", "./models", "models/"])
def test_folders_of_written_files_are_made_below_the_output(folder: str) -> None:
    text = LOOP.replace("'blobs.pth'", "'models/blobs.pth'")
    made = 'os.makedirs(os.path.join(args.output, "models"), exist_ok=True)'
    assert made in adopt_text(text).text
    adopted = adopt_text(f"import os\n{text}".replace("BATCH", f'os.mkdir("{folder}")\nBATCH', 1)).text
    assert f'os.mkdir(os.path.join(args.output, "{folder}"))' in adopted
    assert made not in adopted


def test_nothing_keeps_the_group_of_a_script() -> None:
    text = adopt_text(PLAIN).text
    assert text.index("import torch.distributed.nn ") < text.index("dist.init_process_group(")
    assert text.endswith("dist.barrier()\ndel ddp_model\ndist.destroy_process_group()\n")


def test_a_library_leaves_the_group_where_the_program_ends_in_a_line() -> None:
    path = MORE.parent / "scripts/lightning_module.py"
    text = path.read_text(encoding="utf-8").replace("    main()\n", "    raise SystemExit(main())\n")
    text = f"import sys\n{text}".replace("raise SystemExit(main())", "sys.exit(main())")
    assert "atexit.register(lambda: dist.is_initialized() and" in adopt_text(text).text


@pytest.mark.parametrize(
    ("line", "known"),
    [
        ("mkdir -p out", True),
        ("nvidia-smi", True),
        ("ls *.py | head -3", True),
        ("mkdir out && cd out", False),
        ("cat a > b", False),
        ("unzip -q data.zip", False),
        ("mkdir {name}", False),
    ],
)
def test_shell_lines_of_a_notebook_are_told_apart(line: str, known: bool) -> None:
    text = LOOP.replace("BATCH_SIZE", f"get_ipython().system('{line}')\nBATCH_SIZE", 1)
    if not known:
        with pytest.raises(AdoptError, match="in notebooks only"):
            adopt_text(text)
        return
    adopted = adopt_text(text).text
    assert "get_ipython" not in adopted
    assert ('os.makedirs("out", exist_ok=True)' in adopted) is line.startswith("mkdir")


@pytest.mark.parametrize(
    ("parameter", "trains", "evaluates"),
    [
        ("optimizer=None", ", optimizer", ""),
        ("optimizer=None", ", optimizer=optimizer", ", optimizer=None"),
        ("optimizer, is_train=True", ", optimizer", ", optimizer, is_train=False"),
        ("optimizer, phase", ", optimizer, 'train'", ", optimizer, 'val'"),
    ],
)
def test_a_function_that_evaluates_too_is_shared(parameter: str, trains: str, evaluates: str) -> None:
    text = read("shared_epoch").replace("criterion, optimizer=None):", f"criterion, {parameter}):")
    text = text.replace("loader, criterion, optimizer)", f"loader, criterion{trains})")
    text = text.replace("test_loader, criterion)", f"test_loader, criterion{evaluates})")
    adopted = adopt_text(text).text
    assert f"run_epoch(ddp_model, train_loader, criterion{trains})" in adopted
    assert f"run_epoch(ddp_model, test_loader, criterion{evaluates})" in adopted


def test_a_second_training_by_the_same_function_is_refused() -> None:
    text = read("shared_epoch").replace("test_loader, criterion)", "test_loader, criterion, optimizer)")
    with pytest.raises(AdoptError, match="`run_epoch` trains, and is called here a second time"):
        adopt_text(text)


def test_another_model_that_is_evaluated_by_the_same_function_stays_bare() -> None:
    text = read("shared_epoch").replace(
        "run_epoch(model, test_loader", "run_epoch(nn.Linear(8, 3), test_loader"
    )
    assert "run_epoch(nn.Linear(8, 3), test_loader, criterion)" in adopt_text(text).text
    inside = text.replace(
        "    training = ", "    print(model.weight)\n    training = "
    )  # `model.module.weight`
    with pytest.raises(AdoptError, match="`run_epoch` trains, and is called here a second time"):
        adopt_text(inside)


def test_a_sum_that_the_loop_shows_is_reduced_behind_it_too() -> None:
    text = LOOP.replace("        total += loss", "        print(total)\n        total += loss")
    adoption = adopt_text(text)
    assert "    total = add_up(total)\n" in adoption.text
    (left,) = (each for each in adoption.obstacles if each.message.startswith("`total` is of the rows"))
    assert left.help == "show it behind this loop, where it is of all rows"

    forever = text.replace("    total = 0.0\n", "").replace("for epoch in", "total = 0.0\nfor epoch in")
    assert "add_up" not in adopt_text(forever).text  # it would be multiplied in each epoch


SCALED = """
import torch
from torch.utils.data import DataLoader, TensorDataset

amp = torch.cuda.is_available()
loader = DataLoader(TensorDataset(torch.randn(64, 4)), batch_size=8, shuffle=True)
model = torch.nn.Linear(4, 1).to("cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler() if amp else None
for epoch in range(3):
    for (x,) in loader:
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        if scaler is not None:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()
"""


def test_a_scaler_that_may_be_none_is_saved_where_it_is_there() -> None:
    text = adopt_text(SCALED).text

    assert '"scaler": scaler.state_dict() if scaler is not None else None,\n' in text
    assert '    if scaler is not None:\n        scaler.load_state_dict(state["scaler"])\n' in text


def test_names_that_only_the_loop_sets_are_told_where_they_are_read_behind_it() -> None:
    text = LOOP + "\nprint(total, epoch)\nmodel.eval()\n"
    told = [each.message for each in adopt_text(text).obstacles if "only the loop" in each.message]
    assert told == [
        f"only the loop sets `{name}`: a job that resumes after its last epoch fails here"
        for name in ("total", "epoch")
    ]
    before = text.replace("for epoch in", "total, epoch = 0.0, 0\nfor epoch in", 1)
    assert not [each for each in adopt_text(before).obstacles if "only the loop" in each.message]


RATE = """\
import time

import torch
from torch.utils.data import DataLoader, TensorDataset

dataset = TensorDataset(torch.randn(64, 4))
loader = DataLoader(dataset, batch_size=8, shuffle=True)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    start = time.perf_counter()
    seen, total = 0, 0.0
    for (x,) in loader:
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen += x.size(0)
        total += loss.item()
        INSIDE
    elapsed = time.perf_counter() - start
    rate = BEHIND
    print(rate)
"""


def adopt_rate(behind: str, inside: str = "pass") -> str:
    return adopt_text(RATE.replace("BEHIND", behind).replace("INSIDE", inside)).text


@pytest.mark.parametrize(
    ("written", "adopted"),
    [
        ("seen / elapsed", "seen * WORLD_SIZE / elapsed"),
        ("seen / (time.perf_counter() - start)", "seen * WORLD_SIZE / (time.perf_counter() - start)"),
        ("seen / max(elapsed, 1e-9)", "seen * WORLD_SIZE / max(elapsed, 1e-9)"),
        ("seen * 4 / elapsed", "seen * 4 * WORLD_SIZE / elapsed"),
        ("len(dataset) / elapsed", "len(dataset) / elapsed"),  # all rows already
        ("len(loader) / elapsed", "len(loader) / elapsed"),  # steps, which all take together
        ("total / len(loader)", "total / len(loader)"),
        ("total / seen", "total / seen"),
    ],
)
def test_rows_behind_the_loop(written: str, adopted: str) -> None:
    assert f"    rate = {adopted}\n" in adopt_rate(written)


@pytest.mark.parametrize("rows", ["x.size(0)", "x.shape[0]", "len(x)", "seen"])
def test_rows_inside_the_loop(rows: str) -> None:
    text = adopt_rate("0", f"print({rows} / (time.perf_counter() - start))")
    assert f"print({rows} * WORLD_SIZE / (time.perf_counter() - start))" in text


def test_a_sum_over_all_processes_is_not_multiplied_again() -> None:
    text = adopt_rate("seen / elapsed; share = seen / len(dataset)")
    assert "seen = add_up(seen)" in text
    assert "rate = seen / elapsed;" in text


def test_a_rate_that_cannot_be_edited_is_reported() -> None:
    adoption = adopt_text(RATE.replace("BEHIND", "(seen + 1) / elapsed").replace("INSIDE", "pass"))
    assert "this rate is of the rows of one process" in [left.message for left in adoption.obstacles]


LAMBDA = "LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 100))"
SEQUENCE = "SequentialLR(optimizer, [LinearLR(optimizer, 0.1), CosineAnnealingLR(optimizer, 9)], [1])"


@pytest.mark.parametrize(
    ("line", "warms_up"),
    [
        ("pass", False),
        ("schedule = lr_scheduler.StepLR(optimizer, 2)", False),
        ("schedule = lr_scheduler.CosineAnnealingLR(optimizer, 9)", False),
        ("pass  # without a warm-up, warmup", False),
        ("schedule = lr_scheduler.OneCycleLR(optimizer, 0.1, 100)", True),
        ("schedule = lr_scheduler.LinearLR(optimizer, 0.1)", True),
        (f"schedule = lr_scheduler.{SEQUENCE}".replace("[Lin", "[lr_scheduler.Lin"), True),
        ("schedule = get_cosine_schedule_with_warmup(optimizer, 10, 100)", True),
        ("schedule = get_scheduler('cosine', optimizer, num_warmup_steps=10)", True),
        ("schedule = get_scheduler('cosine', optimizer)", None),
        (f"schedule = lr_scheduler.{LAMBDA}", None),
        ("optimizer.param_groups[0]['lr'] = 0.1 * min(1, 3 / 4)", None),
        ("schedule = CosineLRScheduler(optimizer, 9)", None),
    ],
)
def test_a_warm_up_is_denied_only_where_no_schedule_may_have_one(line: str, warms_up: bool | None) -> None:
    text = "from torch.optim import lr_scheduler\n" + PLAIN.decode()
    at = text.index("for epoch")
    assert adopt_text(f"{text[:at]}{line}\n{text[at:]}").profile.warms_up is warms_up
