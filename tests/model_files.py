"""Zip files and model files taken apart and put together, for tests."""

import io
import json
import struct
import tempfile
import zipfile
from pathlib import Path

import numpy as np


def unzip(content):
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        return {name: file.read(name) for name in file.namelist()}


def zipped(members, kind=zipfile.ZIP_DEFLATED):
    """Bytes of a zip file, the same every time; members are a mapping, or pairs."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", kind) as file:
        for name, content in members.items() if isinstance(members, dict) else members:
            file.writestr(zipfile.ZipInfo(name), content, kind)
    return stream.getvalue()


def npy(dtype="<f8", shape="(2,)", data=b"\0" * 16):
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def array_bytes(array):
    np.save(stream := io.BytesIO(), array, allow_pickle=array.dtype == object)
    return stream.getvalue()


def take_apart(content):
    members = unzip(content)
    return json.loads(members.pop("naim3l.json")), members


def put_together(document, members, kind=zipfile.ZIP_STORED):
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    return zipped({"naim3l.json": text, **members}, kind)


def saved(model):
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model")
        return (Path(folder) / "model").read_bytes()
