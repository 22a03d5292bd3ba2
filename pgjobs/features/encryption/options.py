"""The options of `@task` for encryption, and how a new job gets its values."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from inspect import Parameter
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

from ...base.mask_names import HARMLESS, RESULT
from ...exceptions import InvalidTask
from ...queue.new_job import NewJob
from ...tasks.flow_control import KEYS, placeholders
from ...tasks.option_checks import no_parameter, parameters_of
from ...tasks.option_group import OptionGroup
from .keyring import keyed_hash
from .marking import marks
from .sealing import Arguments, Seal, close_arguments

if TYPE_CHECKING:
    from ...tasks.arguments import Signature, Stored

UNQUOTED = "does not fit its type hint. Its value is encrypted, and not shown"


@dataclass(frozen=True, kw_only=True)
class Encryption(OptionGroup):
    """The options of `@task(...)` for what only workers with a key can read."""

    for_jobs = False
    #: Names of arguments that are encrypted, or `True` for all. What comes of such a
    #: task is encrypted, too: results, steps and answers.
    encrypted: bool | tuple[str, ...] = False
    #: Whether keys may be made of encrypted arguments: as hashes, by
    #: `PGJOBS["HASH_KEY"]`.
    keyed_hash: bool = False
    covering: ClassVar["Covering"]  # of an instance, once its function is known

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "encrypted", names_of(self.encrypted))
        if not isinstance(self.keyed_hash, bool):
            raise InvalidTask(
                f"keyed_hash must be True or False, got {self.keyed_hash!r}."
            )
        if self.keyed_hash and not self.encrypted:
            raise InvalidTask("keyed_hash needs encrypted, which is not given.")
        object.__setattr__(self, "prepares", bool(self.encrypted))

    def check(self, function: Callable) -> None:
        super().check(function)
        if not self.encrypted:
            return
        kinds = parameters_of(function)
        names = tuple(kinds) if isinstance(self.encrypted, bool) else self.encrypted
        for name in names:
            if name not in kinds:
                raise no_parameter(f"encrypted: {name!r}", function)
        object.__setattr__(self, "covering", Covering.of(names, kinds))
        self.hide(names)
        if not self.keyed_hash:
            for option in (*KEYS, "unique_key", "unique"):
                self.refuse_key(option)
        self.refuse_same()
        for name in getattr(self, "write_all", ()):
            if self.covering(name):
                raise InvalidTask(
                    f"write_all cannot name {name!r}, which is encrypted: it makes a "
                    "job for each value, and SQL reads them."
                )

    def hide(self, names: Iterable[str]) -> None:
        """Mask the arguments and the result wherever sensitive ones are."""
        words = tuple(getattr(self, "sensitive", ()))
        for name in names:
            if f"{HARMLESS}{name}" in words:
                raise InvalidTask(
                    f"sensitive says {HARMLESS + name!r}, and {name!r} is encrypted."
                )
        object.__setattr__(
            self, "sensitive", tuple(dict.fromkeys((*words, *names, RESULT)))
        )

    def refuse_key(self, option: str) -> None:
        if source := self.source_of(option):
            raise InvalidTask(
                f"{option} is made of {source}, and would show it. With "
                "keyed_hash=True it is a hash, by PGJOBS['HASH_KEY'], which must stay "
                "the same."
            )

    def source_of(self, option: str) -> str:
        """Return which encrypted argument a key is made of, or an empty text."""
        key = getattr(self, option, None)
        if option != "unique" and callable(key):
            return "what a function takes, encrypted arguments among it"
        found = self.names_in(option)
        if key is True and not found:
            return "all arguments, of which some are encrypted"
        return f"the encrypted argument {found[0]!r}" if found else ""

    def names_in(self, option: str) -> list[str]:
        """Return the encrypted arguments of which a key is made, as far as it says."""
        key = getattr(self, option, None)
        names = self.covering.names
        if key is True or callable(key):
            return list(names)
        if option == "unique":
            return [name for name in names if name in (key or ())]
        return [name for name in placeholders(key or "") if self.covering(name)]

    def refuse_same(self) -> None:
        """Refuse a dependency that another job's key would be made for."""
        for dependency in getattr(self, "dependencies", ()):
            for name, given in dependency.arguments.items():
                if not hasattr(given, "value_of"):
                    continue
                if self.covering(source := given.name or name):
                    raise InvalidTask(
                        f"A dependency cannot be the same in {source!r}, which is "
                        "encrypted: keys of dependencies are made of their arguments."
                    )

    def covers(self, name: str) -> bool:
        """Whether an argument of this name is encrypted."""
        return bool(self.encrypted) and self.covering(name)

    # A new job

    def new_job(self, task_name: str, stored: "Stored") -> NewJob:
        made: NewJob = super().new_job(task_name, stored)  # type: ignore[misc]
        return encrypted_job(made, self.close(stored)) if self.encrypted else made

    def close(self, stored: "Stored", seal: Seal | None = None) -> Arguments:
        """Return the arguments encrypted. Raises EncryptionError."""
        covers, rest = self.covering, self.covering.positional
        return close_arguments(
            stored.args, stored.kwargs, covers, rest, seal or Seal.new()
        )

    def close_for_successor(self, stored: "Stored", seal: Seal) -> Arguments:
        """Return the arguments with which a job of this seal goes on. Raises NoKey.

        A task that is not encrypted has met what is: any of them may be made of it.
        """
        if self.encrypted:
            return self.close(stored, seal)
        return close_arguments(
            stored.args, stored.kwargs, lambda name: True, True, seal
        )

    def flow_control_keys(
        self, signature: "Signature", args: tuple, kwargs: dict, stored: "Stored"
    ) -> dict[str, Any]:
        keys: dict[str, Any] = super().flow_control_keys(  # type: ignore[misc]
            signature, args, kwargs, stored
        )
        for option in KEYS if self.encrypted else ():
            if option in keys and self.source_of(option):
                keys[option] = keyed_hash(keys[option], self.names_in(option))
        return keys

    def unique_columns(
        self, signature: "Signature", args: tuple, kwargs: dict, stored: "Stored"
    ) -> dict[str, Any]:
        columns: dict[str, Any] = super().unique_columns(  # type: ignore[misc]
            signature, args, kwargs, stored
        )
        made_of = [each for each in UNIQUE if self.encrypted and self.source_of(each)]
        if made_of and (key := columns.get("unique_key")) is not None:
            columns["unique_key"] = keyed_hash(key, self.names_in(made_of[0]))
        return columns

    # What others are told

    def complete(self, signature: "Signature") -> None:
        super().complete(signature)
        for name, parameter in signature.parameters.items():
            if self.covers(name):
                unquote(parameter.hint)
                parameter.is_encrypted = True

    def kept(self, running: Any, text: str | None) -> str | None:
        return running.sealed("result", super().kept(running, text))

    def definition(self, signature: "Signature") -> dict[str, Any]:
        names = self.encrypted is True or list(self.encrypted or ())
        own = {"encrypted": names} if names else {}
        return super().definition(signature) | own


UNIQUE = ("unique", "unique_key")


@dataclass(frozen=True)
class Covering:
    """Which arguments of a task are encrypted."""

    names: tuple[str, ...]  # as the option names them
    known: frozenset[str]  # the names of all parameters
    others: bool  # whether those of **kwargs are
    positional: bool  # whether those of *args are

    @classmethod
    def of(cls, names: tuple[str, ...], kinds: dict[str, Any]) -> "Covering":
        own = [kinds[name] for name in names]
        return cls(
            names,
            frozenset(kinds),
            Parameter.VAR_KEYWORD in own,
            Parameter.VAR_POSITIONAL in own,
        )

    def __call__(self, name: str) -> bool:
        return name in self.names or (self.others and name not in self.known)


NOTHING = Covering((), frozenset(), False, False)
Encryption.covering = NOTHING


def names_of(given: Any) -> bool | tuple[str, ...]:
    """Return the option as it is kept; raise InvalidTask."""
    if isinstance(given, bool):
        return given
    is_text = isinstance(given, str) or not isinstance(given, Iterable)
    names = () if is_text else tuple(given)
    if not names or not all(isinstance(each, str) for each in names):
        raise InvalidTask(
            f'encrypted must be names of arguments, such as ("iban",), or True, got '
            f"{given!r}."
        )
    return names


def encrypted_job(new_job: NewJob, closed: Arguments) -> NewJob:
    """Return the job with encrypted arguments, and the mark that says so."""
    keys = {**(new_job.keys or {}), **marks(closed.mark)}
    return new_job._replace(args=closed.args, kwargs=closed.kwargs, keys=keys)


def unquote(hint: Any) -> None:
    """Let the faults of a hint say nothing of the value."""
    for verb in ("store", "load", "key_form"):
        setattr(hint, verb, without_value(getattr(hint, verb)))


def without_value(verb: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def call(value: Any) -> Any:
        try:
            return verb(value)
        except ValueError:
            pass
        # Not inside of the handler: the error that quotes it would be its context.
        raise ValueError(UNQUOTED)

    return call


GROUPS = (Encryption,)


class TaskOptions(TypedDict, total=False):
    encrypted: bool | str | Iterable[str]
    keyed_hash: bool
