"""Process images: the objects of a process are the file of a checkpoint, and another process continues with them.

An image is written by an explicit protocol: it has what is reachable from one object by `pickle`, not the memory of the
process. Connections, threads and open files are not in it. A restored process opens its connections again and checks that
the world is still the one that the image was taken in.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import json
import logging
import pickle
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar, Unpack
from urllib.parse import quote

from reviewqueue_client._sync.run import Run
from reviewqueue_client.errors import Stopped
from reviewqueue_client.values import Answer, Question

log = logging.getLogger("reviewqueue_client")

MAGIC = b"reviewqueue-process-image/2\n"
#: Classes outside of the modules of the process that an image can have.
_ALLOWED = {
    "builtins": {
        *("bool", "bytearray", "bytes", "complex", "dict", "float", "frozenset"),
        *("int", "list", "object", "range", "set", "slice", "str", "tuple"),
    },
    "collections": {"OrderedDict", "defaultdict", "deque", "Counter"},
    "datetime": {"date", "time", "datetime", "timedelta", "timezone"},
    "decimal": {"Decimal"},
    "fractions": {"Fraction"},
    "pathlib": {"PosixPath", "PurePosixPath"},
    "uuid": {"UUID"},
}
Connect = Callable[[], tuple[Any, str]]
Process = TypeVar("Process", bound=Callable[..., Any])


class ImageRefused(Exception):
    """The image cannot be restored here. ``reason``: `signature`, `format`, `run`, `python`, `code` or `class`."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


@dataclass(frozen=True)
class Place:
    """Where an image belongs: a checkpoint of a run, and the epoch of the run, which is another one after each restart."""

    run: str = ""
    epoch: int = 0
    checkpoint: int = 0

    def takes(self, written: Place) -> bool:
        """Return whether an image that was written there can be here. A restart copies an earlier checkpoint."""
        if written.epoch == self.epoch:
            return written == self
        return written.run == self.run and written.epoch < self.epoch and written.checkpoint < self.checkpoint


NO_PLACE = Place()


def dump(process: Any, *, modules: Iterable[str], key: bytes, place: Place = NO_PLACE) -> bytes:
    """Return the image of an object: a signature, a header, and the pickle.

    ``modules``: the code of the process, whose digests the header has. ``place``: where the image can be loaded. Raises
    ``TypeError`` if an attribute is a connection, a thread or another object that belongs to this process, or if ``load``
    would refuse an object; to know this, the image is restored once.
    """
    code = _code_of(modules)
    header = {"python": _python(), "code": code, "place": asdict(place)}
    try:
        objects = pickle.dumps(process, protocol=5)
        _Unpickler(objects, set(code)).load()
    except Exception as error:
        text = (
            f"An image of {type(process).__name__} cannot be taken: {error}. Keep connections in `world.connections`."
        )
        raise TypeError(text) from error
    content = MAGIC + json.dumps(header, sort_keys=True).encode() + b"\n" + objects
    return hmac.digest(key, content, "sha256") + content


def load(image: bytes, *, modules: Iterable[str], key: bytes, place: Place = NO_PLACE) -> Any:
    """Return the object of an image. Raises ``ImageRefused``.

    An image of another key, place, Python or code is refused before anything of it is executed. An object of another module
    is refused when it is reached: objects before it have been restored, by functions of ``modules`` and of `_ALLOWED` only.
    """
    signature, content = image[:32], image[32:]
    if not hmac.compare_digest(signature, hmac.digest(key, content, "sha256")):
        raise ImageRefused("signature", "The image was not signed with the key of this process.")
    if not content.startswith(MAGIC):
        raise ImageRefused("format", "The format of the image is not known.")
    written, _, objects = content[len(MAGIC) :].partition(b"\n")
    header = json.loads(written)
    if not place.takes(Place(**header["place"])):
        text = f"The image is of the run {header['place']['run']}, checkpoint {header['place']['checkpoint']}."
        raise ImageRefused("run", text)
    if header["python"] != _python():
        text = f"The image is of Python {header['python']}, and this process is Python {_python()}."
        raise ImageRefused("python", text)
    code = _code_of(modules)
    other = sorted(name for name in code.keys() | header["code"].keys() if code.get(name) != header["code"].get(name))
    if other:
        raise ImageRefused("code", f"The image was taken by other code: {', '.join(other)}.")
    return _Unpickler(objects, set(code)).load()


class _Unpickler(pickle.Unpickler):
    def __init__(self, objects: bytes, modules: set[str]) -> None:
        super().__init__(io.BytesIO(objects))
        self._modules = modules

    def find_class(self, module: str, name: str) -> Any:
        found = None
        if name in _ALLOWED.get(module, ()):
            return super().find_class(module, name)
        if module in self._modules and "." not in name:
            found = super().find_class(module, name)
        if getattr(found, "__module__", None) != module:  # one that the module imports
            raise ImageRefused("class", f"The image has an object of {module}.{name}, which is not in its modules.")
        return found


def _nothing() -> None:
    """Do nothing: the connection cannot be closed."""


def _python() -> str:
    return f"{sys.implementation.name} {sys.version_info.major}.{sys.version_info.minor}"


def _code_of(modules: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 digest of the file of each module."""
    files = {name: Path(str(sys.modules[name].__file__)) for name in modules}
    return {name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in files.items()}


class World:
    """What a process does not carry in its image: the run, and connections that are opened again."""

    def __init__(self, run: Run, process: Any, runner: ProcessRunner[Any]) -> None:
        self.run = run
        self._process, self._runner = process, runner
        self.connections: dict[str, Any] = {}
        self._peers: dict[str, str] = {}
        try:
            for name, connect in runner.connections.items():
                self.connections[name], self._peers[name] = connect()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connections that have a function `close`."""
        for name, connection in self.connections.items():
            try:
                getattr(connection, "close", _nothing)()
            except Exception:
                log.exception("the connection %s was not closed", name)

    def ask(self, key: str, **question: Unpack[Question]) -> Answer:
        """Return the answer to the request with this key; without one, write the image and suspend the run.

        After the answer the restored object is called again from its beginning. First the facts of the image are compared:
        the peers of its connections, the validity of its credentials, and the effects that were in the ledger.
        """
        given = self.run.answers.get(key)
        if given is not None:
            self._check()
            return given
        consulted = self._effects()
        facts = [{"name": name, "value": value} for name, value in self._peer_facts().items()]
        facts += [{"name": f"effect {key}", "value": status} for key, status in consulted.items()]
        credentials = {f"credential {name}": valid() for name, valid in self._runner.credentials.items()}
        facts += [{"name": name, "value": value, "kind": "credential"} for name, value in credentials.items()]
        stated = [{**fact, "check": "worker", "on_change": "replan"} for fact in facts]
        question["facts"] = [*question.get("facts", []), *stated]
        stale = [f"{fact['name']}: {fact['value']} → {fact['now']}" for fact in self.run.changed]
        if self.run.overtaken and stale:
            shown = {"label": "Changed since the last decision", "value": "\n".join(stale)}
            question["evidence"] = [*question.get("evidence", []), shown]
        place = Place(self.run.id, self.run.epoch, self.run.checkpoint_number + 1)
        self.run.put_file(dump(self._process, modules=self._runner.modules, key=self._runner.key, place=place))
        return self.run.ask(key, **question)

    def _peer_facts(self) -> dict[str, Any]:
        return {f"connection {name}": peer for name, peer in self._peers.items()}

    def _check(self) -> None:
        """Report what the image relied on. Ends the execution if it is stale."""
        effects = {f"effect {key}": status for key, status in self._effects().items()}
        stated = [fact["name"] for fact in self.run.facts]
        now = self._peer_facts() | effects
        for attempt in range(2):  # the second after a renewal
            credentials = {f"credential {name}": valid() for name, valid in self._runner.credentials.items()}
            found = {name: value for name, value in (now | credentials).items() if name in stated}
            if not found or self.run.report_facts(found) == "continue":
                return
            if attempt:
                self.run.release("retry", "a credential is not valid")
                raise Stopped("credential_not_valid")

    def _effects(self) -> dict[str, str]:
        found: dict[str, str] = {}
        cursor: str | None = ""
        while cursor is not None:
            more = f"?next={quote(cursor)}" if cursor else ""
            page = self.run.client.call("GET", f"runs/{self.run.id}/effects{more}")
            found |= {effect["key"]: effect["status"] for effect in page["effects"]}
            cursor = page["next"]
        return found


class ProcessRunner(Generic[Process]):
    """A function for ``RunHandle.execute`` or a worker: calls a process object, restored from its image if there is one.

    ``new`` returns the object of a new run; it is called with a ``World`` and returns the run's result. ``key`` signs
    images: at least 32 bytes that only the agent's processes have. ``modules``: names of the modules with its classes.
    ``connections``: by name, a function that connects and returns the connection and what identifies its peer;
    it is closed (`close`) at the end of each execution.
    ``credentials``: by name, a function that returns their validity, and renews them if they are not valid.

    An image that this code cannot read is released as `incompatible`, so that a worker of its version claims the run.
    """

    def __init__(
        self,
        new: Callable[[Run], Process],
        *,
        key: bytes,
        modules: Iterable[str],
        connections: Mapping[str, Connect] | None = None,
        credentials: Mapping[str, Callable[[], Any]] | None = None,
    ) -> None:
        if len(key) < 32:
            raise ValueError(f"key must have at least 32 bytes (got {len(key)})")
        self._new, self.key, self.modules = new, key, list(modules)
        self.connections, self.credentials = dict(connections or {}), dict(credentials or {})

    def __call__(self, run: Run) -> Any:
        """Call the process. Raises ``Stopped`` when the run is suspended, or its image is stale or cannot be restored."""
        process = self._restored(run)
        process = self._new(run) if process is None else process
        world = World(run, process, self)
        try:
            return process(world)
        finally:
            world.close()

    def _restored(self, run: Run) -> Process | None:
        image = None if run.overtaken else run.get_file()  # what a stale image computed must be computed again
        if image is None:
            return None
        try:
            restored: Process = load(
                image,
                modules=self.modules,
                key=self.key,
                place=Place(run.id, run.epoch, run.checkpoint_number),
            )
        except ImageRefused as refused:
            run.release("incompatible", str(refused))
            raise Stopped("incompatible") from refused
        return restored
