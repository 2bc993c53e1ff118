"""Images of processes: what is restored, and which images are refused before anything of them is executed."""

from __future__ import annotations

import pickle
import socket
from pathlib import Path
from typing import Any

import pytest
from reviewqueue_client.adapters import process_image
from reviewqueue_client.adapters.process_image import ImageRefused, dump, load

KEY, MODULES = b"k" * 32, [__name__]


class Plan:
    def __init__(self) -> None:
        self.offers: list[Any] = [{"amount": "184000.00"}]
        self.first = self.offers[0]


class Executes:
    def __reduce__(self) -> Any:
        return Path.unlink, (Path("somewhere"),)


def refusal(image: bytes, *, modules: list[str] = MODULES, key: bytes = KEY) -> str:
    with pytest.raises(ImageRefused) as refused:
        load(image, modules=modules, key=key)
    return refused.value.reason


def test_a_restored_object_has_its_attributes_and_their_references():
    plan = load(dump(Plan(), modules=MODULES, key=KEY), modules=MODULES, key=KEY)
    assert plan.offers == [{"amount": "184000.00"}]
    assert plan.first is plan.offers[0]


def test_an_image_of_another_key_or_with_another_byte_is_refused():
    image = dump(Plan(), modules=MODULES, key=KEY)
    assert refusal(image, key=b"o" * 32) == "signature"
    assert refusal(image[:-1] + bytes([image[-1] ^ 1])) == "signature"
    assert refusal(b"") == "signature"


def test_an_image_of_other_code_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    image = dump(Plan(), modules=MODULES, key=KEY)
    newer = tmp_path / "newer.py"
    newer.write_text(Path(__file__).read_text() + "\n")
    monkeypatch.setitem(globals(), "__file__", str(newer))
    assert refusal(image) == "code"
    assert refusal(image, modules=[]) == "code"


def test_an_image_of_another_python_is_refused(monkeypatch: pytest.MonkeyPatch):
    image = dump(Plan(), modules=MODULES, key=KEY)
    monkeypatch.setattr(process_image, "_python", lambda: "cpython 3.99")
    assert refusal(image) == "python"


def test_an_object_of_another_module_is_refused_and_nothing_is_executed():
    image = dump({"plan": Executes()}, modules=MODULES, key=KEY)
    assert refusal(image) == "class"
    assert refusal(dump(print, modules=MODULES, key=KEY)) == "class"
    assert pickle.loads(pickle.dumps(Plan())).offers  # noqa: S301  without the refusal it would be restored


def test_a_connection_cannot_be_in_an_image():
    with (
        socket.socket() as connection,
        pytest.raises(
            TypeError, match=r"An image of dict cannot be taken: .* Keep connections in `world.connections`."
        ),
    ):
        dump({"connection": connection}, modules=MODULES, key=KEY)
