"""A folder that is uploaded as one zip, as azure-ai-ml zips an include; it is never whole in memory."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import IO

from msgspec import Struct

from worldsize.azureml.copying import CHUNK, open_listed

_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest a zip can hold: the same bytes on any day


class Archive(Struct, frozen=True):
    """Files that become one zip where they are copied to; ``files`` are sorted by their place in it."""

    folder: str
    files: tuple[tuple[str, Path], ...]

    def copy_to(self, target: Path) -> None:
        """Write the zip.

        Raises:
            OSError: A file cannot be read, or is another one than when it was listed; or the target cannot
                be written.
        """
        with target.open("wb") as file:
            self.write(file)

    def write(self, file: IO[bytes]) -> None:
        """Write the zip into an open file, one piece of a file after the other."""
        import zipfile  # noqa: PLC0415 - few components include a zipped folder

        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr(zipfile.ZipInfo(f"{self.folder}/", _TIME), b"")
            for name, path in self.files:
                with open_listed(path) as source:
                    left = os.fstat(source.fileno()).st_size
                    entry = zipfile.ZipInfo(name, _TIME)
                    entry.file_size = left  # says whether its header needs eight bytes for it
                    try:
                        packed = archive.open(entry, "w")
                    except UnicodeEncodeError:
                        raise OSError(errno.EILSEQ, "its name is not text", str(path)) from None
                    with packed:
                        while chunk := source.read(CHUNK):
                            left -= len(chunk)
                            if left < 0:
                                raise OSError(errno.ESTALE, "it grew while it was copied", str(path))
                            packed.write(chunk)

    def identity(self) -> bytes:
        """Equal for zips of the same files; nothing is read."""
        parts = [self.folder, *(os.fspath(part) for entry in self.files for part in entry)]
        return b"\0".join(map(os.fsencode, parts))
