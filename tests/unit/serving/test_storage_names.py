"""No name of a blob, and no request, leads outside the home."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from worldsize.serving.home import Home
from worldsize.serving.storage.files import StorageError, blob_name, locate

SEGMENTS = st.one_of(
    st.sampled_from(["", ".", "..", "a", " ", "%2e%2e", "link", "\\", "\0"]), st.text(max_size=6)
)
PATHS = st.lists(SEGMENTS, max_size=6).map("/".join)
CONTAINERS = st.one_of(st.sampled_from(["azureml", "..", ".", "", "a/b", "$root"]), st.text(max_size=6))


@contextlib.contextmanager
def home_with_link() -> Iterator[Home]:
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder) / "home")
        home.make()
        (home.blobs / "azureml").mkdir()
        (home.blobs / "azureml" / "link").symlink_to("/")
        yield home


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with home_with_link() as home:
        yield home


@given(container=CONTAINERS, path=PATHS)
@example(container="azureml", path="../../token.secret")
@example(container="azureml", path="link/etc/passwd")
@example(container="azureml", path="a/\ud800")
@example(container="azureml", path="a" * 2000)
def test_every_path_is_refused_or_in_the_container(home: Home, container: str, path: str) -> None:
    try:
        place = locate(home, container, path)
    except StorageError:
        return
    assert place.resolve().is_relative_to((home.blobs / container).resolve())
    assert home.blobs.resolve() in (home.blobs / container).resolve().parents


@given(path=PATHS)
def test_a_name_stays_what_it_is(path: str) -> None:
    with contextlib.suppress(StorageError):
        name = blob_name(path)
        assert blob_name(name) == name
        assert [each for each in path.split("/") if each] == [each for each in name.split("/") if each]
