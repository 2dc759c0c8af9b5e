"""What people do to folders of pictures and text, and to the specs that read them."""

from __future__ import annotations

from pathlib import Path

from fault_projects import CLASSES, Edit, both, content, move, png, remove, spec

P, SIZE = "photographs", "image_size: 32"
TOKENS = "vocabulary_size: 300"


def flatten(folder: Path) -> None:
    """Put all pictures into one folder."""
    for file in sorted((folder / P).glob("*/*.png")):
        file.rename(folder / P / file.name)
    for name in CLASSES:
        (folder / P / name).rmdir()


def deepen(folder: Path) -> None:
    """Put the class folders below folders of parts."""
    for part in ("train", "val"):
        (folder / P / part).mkdir()
    for name in CLASSES:
        (folder / P / name).rename(folder / P / "train" / name)
    (folder / P / "val" / "coast").mkdir()
    (folder / P / "val" / "coast" / "0.png").write_bytes(png(8, 8, 0))


def keep(count: int) -> Edit:
    """Keep the first pictures only."""

    def edit(folder: Path) -> None:
        for file in sorted((folder / P).glob("*/*.png"), key=lambda path: path.name)[count:]:
            file.unlink()

    return edit


def label(text: str, at: str = "labels.csv") -> Edit:
    """Put the pictures into one folder, and beside them a CSV with labels."""
    return both(flatten, content(f"{P}/{at}", lambda _: text.encode()))


LABELS = "file,label\n" + "".join(f"{number:02}.png,{CLASSES[number % 3]}\n" for number in range(60))
CUT = png(8, 8, 0)[:-30]

PHOTOGRAPHS: dict[str, Edit] = {
    "the folder is misspelt": spec("data: ./photographs", "data: ./photos"),
    "a folder in the data that is not there": spec(SIZE, f"{SIZE}, source: train"),
    "no pictures": both(remove(P), content(f"{P}/.DS_Store", lambda _: b"Bud1")),
    "no class folders": flatten,
    "one class folder": both(remove(f"{P}/desert"), remove(f"{P}/forest")),
    "a picture beside the class folders": content(f"{P}/logo.png", lambda _: png(8, 8, 0)),
    "folders of parts above the classes": deepen,
    "pictures of another format": both(remove(P), content(f"{P}/coast/a.heic", lambda _: b"ftypheic")),
    "a film among them": both(remove(P), content(f"{P}/coast/a.mp4", lambda _: b"ftypmp42")),
    "an archive of pictures": both(remove(P), content(f"{P}/photographs.zip", lambda _: b"PK\x03\x04")),
    "an empty picture": content(f"{P}/coast/00.png", lambda _: b""),
    "half a picture": content(f"{P}/coast/00.png", lambda _: CUT),
    "a web page by the name of a picture": content(f"{P}/coast/00.jpg", lambda _: b"<!DOCTYPE html>"),
    "a pointer of Git LFS": content(
        f"{P}/coast/00.png", lambda _: b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n"
    ),
    "pictures and tables": content(f"{P}/more.csv", lambda _: b"a,b\n1,2\n"),
    "fewer pictures than a batch": keep(9),
    "a size of no pixels": spec(SIZE, "image_size: 0"),
    "a size that is negative": spec(SIZE, "image_size: -32"),
    "a size of letters": spec(SIZE, "image_size: large"),
    "a size that fills the memory": spec(SIZE, "image_size: 20000"),
    "a mode of no name": spec(SIZE, f"{SIZE}, image_mode: gray"),
    "a way to resize that is none": spec(SIZE, f"{SIZE}, image_resize: fit"),
    "a way to store that is none": spec(SIZE, f"{SIZE}, image_storage: png"),
    "a table of labels that is not there": spec(SIZE, f"{SIZE}, labels: classes.csv"),
    "a label without a picture": label(LABELS + "99.png,coast\n"),
    "two labels for a picture": label(LABELS + "00.png,forest\n"),
    "an empty label": label(LABELS.replace("07.png,desert", "07.png,")),
    "labels that are separated by semicolons": label(LABELS.replace(",", ";")),
    "labels of numbers that may be classes": label(
        "file,label\n" + "".join(f"{number:02}.png,{number}\n" for number in range(60))
    ),
    "a regression of class folders": spec(SIZE, f"{SIZE}, task: regression"),
    "a time split of pictures": spec(
        f"{{data: ./photographs, {SIZE}}}}}", f"{{data: ./photographs, {SIZE}}}, split: {{by: camera}}}}"
    ),
    "a model of text": spec("model: cnn", "model: gpt"),
    "a model of no name": spec("model: cnn", "model: resnet50"),
    "a change of pictures that is none": spec("augmentation: light", "augmentation: heavy"),
    "a gate of another task": spec('accuracy: ">= 0.9"', 'rmse: "< 3"'),
    "rows that disagree": spec("learning_rate: 0.02}", "learning_rate: 0.02}, rows: 1600"),
    "no epochs": spec("epochs: 8", "epochs: 0"),
    "less than one step": spec("epochs: 8", "epochs: 0.01"),
}

TENSORFLOW: dict[str, Edit] = {
    "a picture beside the class folders": PHOTOGRAPHS["a picture beside the class folders"],
    "an empty picture": PHOTOGRAPHS["an empty picture"],
    "one class folder": PHOTOGRAPHS["one class folder"],
    "a model of text": spec("model: cnn", "model: gpt"),
    "a Keras application": spec("model: cnn", "model: keras.applications.ResNet50"),
    "a file of a model that is not there": spec("model: cnn", 'model: "nets.py:build"'),
    "an optimizer of no name": spec("optimizer: sgd", "optimizer: rmsprop"),
    "a strategy of PyTorch": spec("optimizer: sgd", "optimizer: sgd, strategy: fsdp"),
    "a strategy of no name": spec("optimizer: sgd", "optimizer: sgd, strategy: mirrored"),
    "an input of the PyTorch component": spec("optimizer: sgd", "optimizer: sgd, pipeline_schedule: gpipe"),
    "a precision of Keras": spec("optimizer: sgd", "optimizer: sgd, precision: mixed_float16"),
    "momentum above one": spec("optimizer: sgd", "optimizer: sgd, momentum: 9"),
    "a schedule of no name": spec("optimizer: sgd", "optimizer: sgd, lr_schedule: exponential"),
    "the decay of text": spec("optimizer: sgd", "optimizer: sgd, weight_decay: low"),
    "processes per instance": spec("compute: gpu", "compute: gpu\n    process_count_per_instance: 4"),
    "more instances than the cluster has": both(
        spec("A100_v4}", "A100_v4, max_instances: 2}"),
        spec("compute: gpu", "compute: gpu\n    instance_count: 4\n    timeout: 3600"),
    ),
    "fewer workers than instances": spec(
        "compute: gpu", "compute: gpu\n    instance_count: 2\n    timeout: 3600\n    worker_count: 1"
    ),
    "a VM size that does not exist": spec("Standard_NC96ads_A100_v4", "Standard_NC96ads_A10_v4"),
    "a batch that does not factor": spec(
        "learning_rate: 0.02}", "learning_rate: 0.02}, global_batch_size: 7"
    ),
    "more rows in a batch than there are": spec("batch_size: 4", "batch_size: 64"),
    "a best metric of text": spec("optimizer: sgd", "optimizer: sgd, best_metric: bleu"),
    "no reference": spec("reference: {batch_size: 4, learning_rate: 0.02}", "epochs: 3"),
    "a reference without a rate": spec("batch_size: 4, learning_rate: 0.02", "batch_size: 4"),
}

T = "texts"
TEXTS: dict[str, Edit] = {
    "the folder is misspelt": spec("data: ./texts", "data: ./text"),
    "a built-in source that is misspelt": spec("data: ./texts", 'source: "builtin:python_source"'),
    "a source without data": spec("data: ./texts", "source: texts"),
    "no files": remove(T),
    "only blank files": both(remove(T), content(f"{T}/a.txt", lambda _: b"\n\n \n")),
    "an empty file alone": both(remove(T), content(f"{T}/a.txt", lambda _: b"")),
    "files of Word": both(remove(T), content(f"{T}/a.docx", lambda _: b"PK\x03\x04")),
    "a PDF by the name of a text": content(f"{T}/0.txt", lambda _: b"%PDF-1.7\n\xe2\xe3\xcf\xd3\n"),
    "Latin-1": content(f"{T}/0.txt", lambda data: data + "Malm\xf6\n".encode("latin-1")),
    "UTF-16": content(f"{T}/0.txt", lambda data: data.decode().encode("utf-16")),
    "a text shorter than a row": both(remove(T), content(f"{T}/a.txt", lambda _: b"Hello, world.\n")),
    "sequences longer than the text": spec("sequence_length: 64", "sequence_length: 1000000"),
    "sequences of no tokens": spec("sequence_length: 64", "sequence_length: 0"),
    "a vocabulary smaller than the bytes": spec(TOKENS, "vocabulary_size: 100"),
    "a vocabulary that is negative": spec(TOKENS, "vocabulary_size: -1"),
    "a vocabulary of words": spec(TOKENS, "vocabulary_size: 32k"),
    "a tokenizer of no name": spec("tokenizer: bpe", "tokenizer: wordpiece"),
    "a tokenizer of a hub": spec("tokenizer: bpe", "tokenizer: gpt2"),
    "a tokenizer that is not there": spec("tokenizer: bpe", "tokenizer: tokenizer.json"),
    "a tokenizer that is none": both(
        content(f"{T}/tokenizer.json", lambda _: b"{}"), spec("tokenizer: bpe", "tokenizer: tokenizer.json")
    ),
    "a text column of text files": spec(TOKENS, f"{TOKENS}, text: body"),
    "a text column that is not there": both(
        remove(T),
        content(f"{T}/a.csv", lambda _: b"title,body\na,b\n"),
        spec(TOKENS, f"{TOKENS}, text: content"),
    ),
    "classes that are not there": both(
        spec(TOKENS, f"{TOKENS}, task: classification"), spec('perplexity: "< 200"', 'accuracy: "> 0.9"')
    ),
    "a regression of text": both(spec(TOKENS, f"{TOKENS}, task: regression"), spec("perplexity:", "rmse:")),
    "a model of numbers": spec("model: gpt", "model: mlp"),
    "a model of pictures": spec("model: gpt", "model: cnn"),
    "a model of a hub": spec("model: gpt", "model: gpt2"),
    "heads that do not divide the width": spec("model: gpt", "model: gpt, gpt_heads: 3, gpt_width: 128"),
    "a gate of bytes": spec("perplexity:", "bits_per_byte:"),
    "a gate of another task": spec('perplexity: "<', 'rmse: "<'),
    "a misspelt metric": spec("perplexity:", "preplexity:"),
    "a gate without a sign": spec('perplexity: "< 200"', "perplexity: 200"),
    "no epochs": spec("epochs: 1", "epochs: 0"),
    "a reference batch of nothing": spec("batch_size: 16", "batch_size: 0"),
    "a secret in the path": spec(
        "data: ./texts",
        'data: "https://x.blob.core.windows.net/t?sv=2024-11-04&sp=rl&sig=' + "Zm9v" * 10 + '%3D"',
    ),
}

GOOD: dict[str, tuple[str, Edit]] = {
    "a vocabulary larger than the text": ("python_source_bpe", spec(TOKENS, "vocabulary_size: 50000")),
    "zero bytes": ("python_source_bpe", content(f"{T}/0.txt", lambda _: bytes(4000))),
    "another name of the only label column": (
        "photographs_ddp",
        label(LABELS.replace("file,label", "file,kind")),
    ),
    "a picture without a label": ("photographs_ddp", label(LABELS.replace("07.png,desert\n", ""))),
    "a size with a cross": ("photographs_ddp", spec(SIZE, "image_size: 32×32")),
    "photographs as they are": ("photographs_ddp", lambda folder: None),
    "photographs with TensorFlow": ("photographs_tensorflow", lambda folder: None),
    "texts as they are": ("python_source_bpe", lambda folder: None),
    "hidden files of a Mac": (
        "photographs_ddp",
        both(
            content(f"{P}/.DS_Store", lambda _: b"Bud1"),
            content(f"{P}/coast/._00.png", lambda _: b"Mac OS X"),
        ),
    ),
    "thumbnails of Windows": ("photographs_ddp", content(f"{P}/coast/Thumbs.db", lambda _: b"\xd0\xcf\x11")),
    "a note beside the class folders": (
        "photographs_ddp",
        content(f"{P}/README.md", lambda _: b"# Photos\n"),
    ),
    "suffixes in capitals": ("photographs_ddp", move(f"{P}/coast/00.png", f"{P}/coast/00.PNG")),
    "folders within a class": ("photographs_ddp", move(f"{P}/coast/00.png", f"{P}/coast/2026/00.png")),
    "a table of labels": ("photographs_ddp", label(LABELS)),
    "a damaged picture that may be left out": (
        "photographs_ddp",
        both(content(f"{P}/coast/00.png", lambda _: CUT), spec(SIZE, f"{SIZE}, broken_images: skip")),
    ),
    "an empty text among others": ("python_source_bpe", content(f"{T}/0.txt", lambda _: b"")),
    "Windows line ends": (
        "python_source_bpe",
        content(f"{T}/0.txt", lambda data: data.replace(b"\n", b"\r\n")),
    ),
    "a byte order mark": ("python_source_bpe", content(f"{T}/0.txt", lambda data: b"\xef\xbb\xbf" + data)),
    "texts in folders": ("python_source_bpe", move(f"{T}/0.txt", f"{T}/deep/er/0.txt")),
}
