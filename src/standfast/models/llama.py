"""llama.cpp in this process: one engine a weights file, one thread that asks it, one answer at a time.

What C code does to the process is kept in bounds here: it takes the signals of Ctrl-C and SIGTERM for
itself (they are given back), opens a socket (nobody can reach it), and would crash a program that ends
in mid-answer (it is stopped first).
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import ctypes
import importlib
import os
import queue
import secrets
import shutil
import signal
import tempfile
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from pathlib import Path
from typing import Any, Protocol, cast

from standfast.models import weights
from standfast.replies import ProviderError

BATCH = 8  # tokens of a prompt between two looks at whether to stop: about 0.08 s of one core; 128 would take 0.8 s
LEAVING_SECONDS = 30.0  # a program that ends waits so long for C code to let go
_SIGACTION_BYTES = 1024  # more than any system's struct sigaction
_SOCKET_PATH_BYTES = 100

Chunk = dict[str, Any]
Key = tuple[Path, int, int]  # weights, tokens of context, threads


class Server(Protocol):
    """The part of xllamacpp.Server that is used; it gives up the answer when the callback returns True."""

    def handle_chat_completions(self, prompt: Chunk, callback: Callable[[Chunk], bool]) -> None: ...

    def handle_completions(self, prompt: Chunk) -> Chunk: ...


class Generation:
    """One answer, from waiting its turn to its end. Its reader may leave at any moment, and then it ends."""

    def __init__(self, body: Chunk) -> None:
        self.body = body
        self.ended = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._heard: asyncio.Queue[Chunk | ProviderError | None] = asyncio.Queue()
        self._lock = threading.Lock()  # begin and stop race, from two threads
        self._begun = False
        self._stopped = False

    async def chunks(self) -> AsyncGenerator[Chunk, None]:
        """What llama.cpp says, as it says it."""
        while (heard := await self._heard.get()) is not None:
            if isinstance(heard, ProviderError):
                raise heard
            yield heard

    def stop(self) -> None:
        """From any thread. An answer whose turn has not come never begins; another one ends after this token."""
        with self._lock:
            self._stopped = True
            if self._begun:
                return
        self._tell(self.ended.set)

    # --- the engine's side ------------------------------------------------------------------------

    def begin(self) -> bool:
        """Its turn has come; False if nobody waits for it any more."""
        with self._lock:
            self._begun = not self._stopped
            return self._begun

    def hear(self, chunk: Chunk) -> bool:
        """One chunk; True when there shall be no more."""
        self._tell(self._heard.put_nowait, chunk)
        return self._stopped

    def end(self, error: ProviderError | None = None) -> None:
        """Nothing of it runs any more."""
        self._tell(self._heard.put_nowait, error)
        self._tell(self.ended.set)

    def _tell(self, act: Callable[..., None], *args: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(act, *args)
        except RuntimeError:  # the loop is closed: its reader has gone without a word
            self._stopped = True


class Engine:
    """A model in memory, from its first use until the process ends."""

    def __init__(self, key: Key) -> None:
        self._key = key
        self._waiting: queue.SimpleQueue[Generation | None] = queue.SimpleQueue()
        self._now: Generation | None = None
        self._closing = False
        self.server: Server | None = None
        self._thread = threading.Thread(target=self._work, name=f"standfast {key[0].name}", daemon=True)
        self._thread.start()

    def ask(self, generation: Generation) -> None:
        """Let it have its turn."""
        self._waiting.put(generation)

    def close(self) -> None:
        """Stop what is being said, and free the model."""
        self._closing = True
        self._waiting.put(None)
        now = self._now
        if now is not None:
            now.stop()
        self._thread.join(LEAVING_SECONDS)

    # --- its thread ---------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            self.server = load(*self._key)
        except ProviderError as error:
            _forget(self._key)  # nobody can ask this engine from now on; the next one tries again
            self._refuse_all(error)
            return
        while (generation := self._waiting.get()) is not None and not self._closing:
            self._now = generation
            if generation.begin():
                self._answer(self.server, generation)
            self._now = None
        self.server = None

    def _answer(self, server: Server, generation: Generation) -> None:
        error: ProviderError | None = None
        if self._closing:
            generation.stop()
        try:
            server.handle_chat_completions(generation.body, generation.hear)
        except Exception as problem:  # noqa: BLE001 - whatever C++ raised: it is about this request
            error = ProviderError(f"the local model refused: {problem}", trouble="refused")
        if not self._closing:  # the process ends, and whoever still reads is a thread that ends with it
            generation.end(error)

    def _refuse_all(self, error: ProviderError) -> None:
        while True:
            try:
                generation = self._waiting.get_nowait()
            except queue.Empty:
                return
            if generation is not None and generation.begin():
                generation.end(ProviderError(error.message, trouble=error.trouble, hint=error.hint))


# --- one engine a weights file and process ------------------------------------------------------

_engines: dict[Key, Engine] = {}
_lock = threading.Lock()


def ask(key: Key, generation: Generation) -> None:
    """Let the engine of these weights answer; it is loaded when it is asked for the first time."""
    with _lock:
        engine = _engines.get(key)
        if engine is None:
            engine = _engines[key] = Engine(key)
        engine.ask(generation)


def _forget(key: Key) -> None:
    with _lock:
        _engines.pop(key, None)


@atexit.register
def close_all() -> None:
    """Free every model: a thread that is inside C++ when Python goes away takes the process down with it."""
    with _lock:
        engines = list(_engines.values())
        _engines.clear()
    for engine in engines:
        engine.close()


def _after_fork() -> None:
    """A forked process has none of the threads: its engines are left as they are, and never freed."""
    global _lock  # noqa: PLW0603 - it may have been held by a thread that is not here
    _lock = threading.Lock()
    for engine in _engines.values():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(engine.server))
    _engines.clear()


os.register_at_fork(after_in_child=_after_fork)

# --- loading --------------------------------------------------------------------------------------


def load(path: Path, context: int, threads: int) -> Server:
    """The model in memory; ProviderError if there is none or it cannot be used. Takes about 0.3 s for 100 MB."""
    try:
        library: Any = importlib.import_module("xllamacpp")
    except ModuleNotFoundError:
        text = "the package xllamacpp, which runs local models, is not installed here"
        raise ProviderError(text, trouble="not_found", hint=weights.INSTALL) from None
    except ImportError as error:
        raise ProviderError(
            f"xllamacpp cannot be loaded: {error}", trouble="not_found", hint=weights.INSTALL
        ) from error
    checked = weights.check(path)
    with _out_of_reach() as socket, _signals_kept():
        try:
            server = cast("Server", library.Server(_settings(library, checked, context, threads, socket)))
        except Exception as error:
            raise _unusable(path, error) from error
    word = server.handle_completions({"prompt": "a", "max_tokens": 1})  # freed before its first word, it would hang
    if "choices" not in word:
        raise _unusable(path, word)
    return server


def _unusable(path: Path, why: object) -> ProviderError:
    return ProviderError(
        f"the weights file {path} cannot be used: {why}",
        trouble="refused",
        hint="it may be damaged, too large for this machine, or of a kind that xllamacpp does not know",
    )


def _settings(library: Any, checked: weights.Weights, context: int, threads: int, socket: Path) -> Any:
    params = library.CommonParams()
    params.model.path = str(checked.path)
    params.n_ctx = min(context, checked.context or context)
    params.n_parallel = 1
    params.n_batch = params.n_ubatch = BATCH
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.use_jinja = True  # tools
    params.hostnames = [str(socket)]
    params.api_keys = [secrets.token_hex(16)]
    for name, value in _COMFORTS.items():
        if hasattr(params, name):
            setattr(params, name, value)
    return params


_COMFORTS = {  # what a release of xllamacpp may lack or rename without harm
    "verbosity": -1,
    "fit_params": False,  # it would load everything twice
    "warmup": False,
    "cache_ram_mib": 0,
    "ui": False,
    "n_threads_http": 1,
}


@contextlib.contextmanager
def _out_of_reach() -> Generator[Path, None, None]:
    """Where llama.cpp may listen while it is loaded. Afterwards the place is gone, and nobody finds it any more."""
    folder = Path(tempfile.mkdtemp(prefix="standfast-"))
    if len(os.fsencode(folder)) > _SOCKET_PATH_BYTES - len("/llama.sock"):
        folder.rmdir()
        folder = Path(tempfile.mkdtemp(prefix="standfast-", dir="/tmp"))
    try:
        yield folder / "llama.sock"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _signals_kept() -> Generator[None, None, None]:
    """llama.cpp takes Ctrl-C and SIGTERM for itself; give them back to whoever had them, from any thread."""
    libc = ctypes.CDLL(None)
    kept = {number: ctypes.create_string_buffer(_SIGACTION_BYTES) for number in (signal.SIGINT, signal.SIGTERM)}
    for number, action in kept.items():
        libc.sigaction(int(number), None, action)
    try:
        yield
    finally:
        for number, action in kept.items():
            libc.sigaction(int(number), action, None)
