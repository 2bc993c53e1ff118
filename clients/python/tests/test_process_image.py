"""Images of processes: what is restored, and which images are refused before anything of them is executed."""

from __future__ import annotations

import hmac
import pickle
import socket
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from reviewqueue_client import Stopped
from reviewqueue_client.adapters import process_image
from reviewqueue_client.adapters.process_image import ImageRefused, Place, ProcessRunner, dump, load

KEY, MODULES = b"k" * 32, [__name__]


class Plan:
    def __init__(self) -> None:
        self.offers: list[Any] = [{"amount": "184000.00"}]
        self.first = self.offers[0]


class Executes:
    def __reduce__(self) -> Any:
        return Path.unlink, (Path("somewhere"),)


def refusal(
    image: bytes, *, modules: list[str] = MODULES, key: bytes = KEY, place: Place = process_image.NO_PLACE
) -> str:
    with pytest.raises(ImageRefused) as refused:
        load(image, modules=modules, key=key, place=place)
    return refused.value.reason


def image_of(objects: bytes) -> bytes:
    """Return a signed image with this pickle, which ``dump`` would not write."""
    image = dump(None, modules=MODULES, key=KEY)[32:]
    header = image[: len(image) - len(pickle.dumps(None, protocol=5))]
    return hmac.digest(KEY, header + objects, "sha256") + header + objects


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
    assert refusal(image_of(pickle.dumps({"plan": Executes()}))) == "class"
    assert refusal(image_of(pickle.dumps(print))) == "class"
    assert pickle.loads(pickle.dumps(Plan())).offers  # noqa: S301  without the refusal it would be restored


@pytest.mark.parametrize("name", ["Path.unlink", "Path", "pickle.loads", "pickle", "KEY", "Plan.__init__"])
def test_what_a_module_imports_is_refused(name: str):
    objects = pickle.PROTO + b"\x04" + pickle.UNICODE + __name__.encode() + b"\n" + pickle.UNICODE + name.encode()
    assert refusal(image_of(objects + b"\n" + pickle.STACK_GLOBAL + pickle.STOP)) == "class"


def test_what_cannot_be_restored_is_not_written():
    for one in (Executes(), print, Path.unlink, pickle.loads):
        with pytest.raises(TypeError, match="cannot be taken"):
            dump({"plan": one}, modules=MODULES, key=KEY)


def test_types_of_python_can_be_in_an_image():
    process = {"by": defaultdict(list, a=[1]), "types": [list, int, dict, set, str, tuple, float, bool, bytes]}
    assert load(dump(process, modules=MODULES, key=KEY), modules=MODULES, key=KEY) == process


def test_an_image_of_another_run_or_checkpoint_is_refused():
    image = dump(Plan(), modules=MODULES, key=KEY, place=Place("r-1", 2, 5))
    assert load(image, modules=MODULES, key=KEY, place=Place("r-1", 2, 5)).offers
    assert load(image, modules=MODULES, key=KEY, place=Place("r-1", 3, 8)).offers  # the copy of a restart
    for other in (("r-2", 2, 5), ("r-1", 2, 4), ("r-1", 2, 6), ("r-1", 1, 5), ("r-2", 3, 8), ("r-1", 3, 5)):
        assert refusal(image, place=Place(*other)) == "run"


def test_connections_are_closed_at_the_end_and_when_another_cannot_be_opened():
    closed: list[str] = []

    class Connection:
        def close(self) -> None:
            closed.append("closed")

    def refuses() -> Any:
        raise OSError("refused")

    def runner(process: Any, **more: Any) -> Any:
        connections = {"catalogue": lambda: (Connection(), "hoists"), **more}
        return ProcessRunner(lambda _: process, key=KEY, modules=MODULES, connections=connections)

    def fails(_: Any) -> None:
        assert closed == []
        raise Stopped("suspended")

    run: Any = SimpleNamespace(overtaken={}, id="r-1", epoch=1, checkpoint_number=1, get_file=lambda: None)
    with pytest.raises(Stopped):
        runner(fails)(run)
    assert closed == ["closed"]
    with pytest.raises(OSError, match="refused"):
        runner(fails, other=refuses)(run)
    assert closed == ["closed", "closed"]


def test_a_connection_cannot_be_in_an_image():
    with (
        socket.socket() as connection,
        pytest.raises(
            TypeError, match=r"An image of dict cannot be taken: .* Keep connections in `world.connections`."
        ),
    ):
        dump({"connection": connection}, modules=MODULES, key=KEY)
