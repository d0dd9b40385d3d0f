"""The key that signs for a store: made once, readable by its owner alone, and never in the store itself."""

from __future__ import annotations

import contextlib
import glob
import hmac
import importlib.util
import os
import stat
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from standfast.errors import KeyUnusable

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

ENVIRONMENT = "STANDFAST_KEY"
_PRIVATE_MODE = 0o600
_PUBLIC_MODE = 0o644


class Key:
    """An Ed25519 key: `sign` is what only its holder can do, `public` is what everybody else needs."""

    __slots__ = ("_private", "_seed", "public")

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self._seed = private.private_bytes_raw()
        self.public: bytes = private.public_key().public_bytes_raw()

    def sign(self, data: bytes) -> bytes:
        """64 bytes that `verify_signature` accepts for these data and this key, and for no others."""
        return self._private.sign(data)

    def derive(self, purpose: bytes) -> bytes:
        """Another secret of 32 bytes that belongs to this key; it tells nothing about the key."""
        return hmac.new(self._seed, b"standfast " + purpose, sha256).digest()

    @property
    def name(self) -> str:
        """What people compare: the first 16 hex digits of the public key's SHA-256."""
        return fingerprint(self.public)


def available() -> bool:
    """Is the `evidence` extra installed?"""
    return importlib.util.find_spec("cryptography") is not None


def fingerprint(public: bytes) -> str:
    """A public key in a form that people can compare."""
    return sha256(public).hexdigest()[:16]


def key_path(store: str | os.PathLike[str]) -> Path:
    """Where the key of a store is: `$STANDFAST_KEY`, else beside it."""
    elsewhere = os.environ.get(ENVIRONMENT, "")
    return Path(elsewhere) if elsewhere else Path(f"{os.fspath(store)}.key")


def public_path(store: str | os.PathLike[str]) -> Path:
    """Where the public key of a store is, for whoever checks its signatures."""
    return Path(f"{os.fspath(store)}.pub")


def load_or_make(store: str | os.PathLike[str]) -> Key:
    """The key of a store; processes that make it at the same time get the same one."""
    _need_cryptography()
    path = key_path(store)
    try:
        signed_before = public_path(store).exists()  # asked first: who makes a key places it before its public half
        if not path.exists():
            if signed_before:
                raise _lost(path, public_path(store))
            _place(path, make().private_pem(), _PRIVATE_MODE)
        key = load(path)
        _publish(public_path(store), key)
    except OSError as error:
        raise KeyUnusable(
            f"the signing key {path} cannot be read or made: {error.strerror}",
            hint=f"make its folder writable, or keep the key elsewhere with ${ENVIRONMENT}; runs go on unsigned",
        ) from error
    return key


def secret_of(store: str | os.PathLike[str], purpose: bytes) -> bytes | None:
    """A secret that belongs to the store's key, the same for every process that has it; None for who has not."""
    path = key_path(store)
    try:
        return load(path).derive(purpose) if available() and path.exists() else None
    except (KeyUnusable, OSError):
        return None  # who cannot sign says so elsewhere


def _lost(path: Path, public: Path) -> KeyUnusable:
    return KeyUnusable(
        f"the signing key {path} is not there, and the store was signed with key {fingerprint(load_public(public))}"
        " until now: no other one was made",
        hint=f"restore it, or give its place in ${ENVIRONMENT}; if it is lost for good: standfast rekey --lost",
    )


def load(path: str | os.PathLike[str]) -> Key:
    """The key in this file; refuses one that others than its owner can read or write."""
    _need_cryptography()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415 - an extra
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

    with Path(path).open("rb") as file:
        found = os.fstat(file.fileno())  # of what is read, not of what the name may mean a moment later
        if not stat.S_ISREG(found.st_mode):
            raise KeyUnusable(f"the signing key {path} is not a file", hint="give the path of a key file")
        if found.st_mode & 0o077:
            raise KeyUnusable(
                f"the signing key {path} can be used by others (mode {stat.S_IMODE(found.st_mode):04o})",
                hint=f"who else has read it can sign for you: make a new one, or, if nobody has, chmod 600 {path}",
            )
        content = file.read()
    try:
        private = load_pem_private_key(content, password=None)
    except (ValueError, TypeError) as error:
        raise KeyUnusable(f"the signing key {path} cannot be read: {error}", hint="restore a copy of it") from error
    if not isinstance(private, Ed25519PrivateKey):
        raise KeyUnusable(f"the signing key {path} is not an Ed25519 key", hint="give another file")
    return Key(private)


class _New(Key):
    """A key that nobody has yet."""

    __slots__ = ()

    def private_pem(self) -> bytes:
        from cryptography.hazmat.primitives import serialization as s  # noqa: PLC0415 - an extra

        return self._private.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption())


def make() -> _New:
    """A new key, kept nowhere yet."""
    _need_cryptography()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415 - an extra

    return _New(Ed25519PrivateKey.generate())


def make_at(path: Path) -> Key:
    """A new key in this file, or the one that another process has just put there."""
    _place(path, make().private_pem(), _PRIVATE_MODE)
    return load(path)


def keep_public(path: Path, public: bytes) -> None:
    """A public key that signs no longer, for what it has signed."""
    if not path.exists():
        _place(path, public_pem(public), _PUBLIC_MODE)


def replace_public(path: Path, public: bytes) -> None:
    """Another public key in this place, whole or not at all."""
    mine = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    _place(mine, public_pem(public), _PUBLIC_MODE)
    mine.replace(path)


def kept_publics(store: str | os.PathLike[str]) -> list[bytes]:
    """The store's public key and those it had before, as `rekey` keeps them beside it."""
    now = public_path(store)
    return [*([load_public(now)] if now.exists() else []), *kept_beside(now)]


def kept_beside(public: Path) -> list[bytes]:
    """The keys that this one has replaced: each in a file that is named by it. Any other file there is not ours."""
    found: list[bytes] = []
    for one in sorted(public.parent.glob(f"{glob.escape(public.name)}.{'[0-9a-f]' * 16}")):
        with contextlib.suppress(KeyUnusable):  # somebody's own file, which happens to have such a name
            key = load_public(one)
            if one.name.endswith(f".{fingerprint(key)}"):
                found.append(key)
    return found


def verify_signature(public: bytes, data: bytes, signature: bytes) -> bool:
    """Did the holder of this key sign exactly these data?"""
    _need_cryptography()
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - an extra
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415

    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, data)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def public_pem(public: bytes) -> bytes:
    """A public key as other programs read it (`openssl pkeyutl -verify -pubin`)."""
    _need_cryptography()
    from cryptography.hazmat.primitives import serialization as s  # noqa: PLC0415 - an extra
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415

    key = Ed25519PublicKey.from_public_bytes(public)
    return key.public_bytes(s.Encoding.PEM, s.PublicFormat.SubjectPublicKeyInfo)


def load_public(path: str | os.PathLike[str]) -> bytes:
    """The public key in a file, as PEM or as 64 hex digits."""
    _need_cryptography()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415 - an extra
    from cryptography.hazmat.primitives.serialization import load_pem_public_key  # noqa: PLC0415

    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise KeyUnusable(f"the public key {path} cannot be read: {error.strerror}", hint="check the path") from error
    with contextlib.suppress(ValueError):
        if len(plain := bytes.fromhex(content.decode("ascii").strip())) == 32:
            return plain
    with contextlib.suppress(ValueError, TypeError):
        public = load_pem_public_key(content)
        if isinstance(public, Ed25519PublicKey):
            return public.public_bytes_raw()
    raise KeyUnusable(f"{path} holds no Ed25519 public key", hint="give the .pub file that is beside the store")


def _publish(path: Path, key: Key) -> None:
    """The public key beside the store. One that is there already must be the same: keys do not change unseen."""
    if not path.exists():
        _place(path, public_pem(key.public), _PUBLIC_MODE)
    known = load_public(path)
    if known != key.public:
        raise KeyUnusable(
            f"the store was signed with key {fingerprint(known)} until now, and this is {key.name}",
            hint="restore the old key; standfast rekey puts another one in its place, and both sign that",
        )


def _place(path: Path, content: bytes, mode: int) -> None:
    """A file with this content, whole or not at all; whoever comes first wins."""
    path.parent.mkdir(parents=True, exist_ok=True)
    mine = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    descriptor = os.open(mine, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):  # another process was quicker: its file counts
            os.link(mine, path)
    finally:
        mine.unlink()
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _need_cryptography() -> None:
    if not available():
        raise KeyUnusable("signing needs the package cryptography", hint="pip install 'standfast[evidence]'")
