"""The standard library's ``dataclass``, ``field``, ``replace`` and ``fields`` at a quarter of their start-up.

A cold ``worldsize check`` makes some seventy record classes. The standard decorator compiles six
functions for each and imports ``inspect`` first: a third of all the time of the check. Here one
function a class is compiled, its ``__init__``; the others are shared. Type checkers see the originals,
and so do ``dataclasses.asdict``, ``replace`` and ``fields``, which work on these classes too.

Supported are ``frozen``, ``slots``, ``eq`` and ``order``, defaults and factories; no inheritance of fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["dataclass", "field", "fields", "replace"]

if TYPE_CHECKING:
    from dataclasses import dataclass, field, fields, replace
else:
    from operator import attrgetter

    class _Missing:
        """What stands for a default that is not given."""

    class _Field:
        """What a record knows of one of its fields."""

        __slots__ = ("compare", "default", "default_factory", "name", "repr")

        def __init__(self, default, default_factory, repr, compare):  # noqa: A002
            self.name = ""
            self.default = default
            self.default_factory = default_factory
            self.repr = repr
            self.compare = compare

    class _StandardFields:
        """``__dataclass_fields__``, made when the standard library asks for it."""

        def __get__(self, instance, owner):
            import dataclasses  # noqa: PLC0415 - not importing it is the point

            made = {}
            for mine in owner.__record_fields__:
                given = {"repr": mine.repr, "compare": mine.compare}
                if mine.default is not _Missing:
                    given["default"] = mine.default
                elif mine.default_factory is not _Missing:
                    given["default_factory"] = mine.default_factory
                theirs = made[mine.name] = dataclasses.field(**given)
                theirs.name = mine.name
                theirs.type = owner.__annotations__[mine.name]
                theirs._field_type = dataclasses._FIELD  # noqa: SLF001 - as the decorator sets it
            owner.__dataclass_fields__ = made
            return made

    def field(*, default=_Missing, default_factory=_Missing, repr=True, compare=True):  # noqa: A002
        """A field with a default, a factory of defaults, or left out of ``repr`` or comparisons."""
        return _Field(default, default_factory, repr, compare)

    def fields(record):
        """The fields of a record or its class, in order; each has a ``name``."""
        return record.__record_fields__

    def replace(record, /, **changes):
        """A copy with some fields changed."""
        for each in record.__record_fields__:
            changes.setdefault(each.name, getattr(record, each.name))
        return type(record)(**changes)

    def dataclass(cls=None, /, *, frozen=False, slots=False, eq=True, order=False):
        """Make a record of a class: see the standard library's decorator of the same name."""
        if cls is None:
            return lambda made: dataclass(made, frozen=frozen, slots=slots, eq=eq, order=order)
        names = list(getattr(cls, "__annotations__", ()))
        own = [_own_field(cls, name) for name in names]
        members = {
            "__record_fields__": own,
            "__match_args__": tuple(names),
            "__dataclass_fields__": _StandardFields(),
            "__init__": _initialiser(cls, own, frozen=frozen),
            "__repr__": _representation,
        }
        if eq:
            members |= _comparisons([each.name for each in own if each.compare], order=order)
            members["__hash__"] = members["__hash__"] if frozen else None
        if frozen:
            members |= _FROZEN
        members = {
            name: member
            for name, member in members.items()
            if name not in cls.__dict__ or name in ("__hash__", "__match_args__")
        }
        if slots:
            return _with_slots(cls, names, members)
        for name, member in members.items():
            setattr(cls, name, member)
        for each in own:
            if each.default is _Missing and each.name in cls.__dict__:
                delattr(cls, each.name)
            elif each.default is not _Missing:
                setattr(cls, each.name, each.default)
        return cls

    def _own_field(cls, name):
        given = cls.__dict__.get(name, _Missing)
        made = given if isinstance(given, _Field) else _Field(given, _Missing, True, True)
        made.name = name
        return made

    def _initialiser(cls, own, *, frozen):
        known = {"_missing": _Missing, "_set": object.__setattr__}
        parameters, lines = ["self"], []
        for each in own:
            name, value = each.name, each.name
            if each.default is not _Missing:
                known[f"_default_{name}"] = each.default
                parameters.append(f"{name}=_default_{name}")
            elif each.default_factory is not _Missing:
                known[f"_make_{name}"] = each.default_factory
                parameters.append(f"{name}=_missing")
                value = f"_make_{name}() if {name} is _missing else {name}"
            else:
                parameters.append(name)
            lines.append(f"  _set(self, {name!r}, {value})" if frozen else f"  self.{name} = {value}")
        body = "\n".join(lines) or "  pass"
        exec(f"def __init__({', '.join(parameters)}):\n{body}", known)  # noqa: S102 - of names in our own source
        made = known["__init__"]
        made.__qualname__ = f"{cls.__qualname__}.__init__"
        return made

    def _with_slots(cls, names, members):
        """The class once more: slots cannot be added to one that exists."""
        left_out = {"__dict__", "__weakref__", *names}
        body = {name: value for name, value in cls.__dict__.items() if name not in left_out}
        body |= members
        body["__slots__"] = tuple(names)
        made = type(cls)(cls.__name__, cls.__bases__, body)
        made.__qualname__ = cls.__qualname__
        return made

    def _representation(self):
        shown = ", ".join(
            f"{each.name}={getattr(self, each.name)!r}" for each in self.__record_fields__ if each.repr
        )
        return f"{type(self).__qualname__}({shown})"

    def _comparisons(names, *, order):
        key = attrgetter(*names) if names else lambda _: ()

        def equal(self, other):
            return key(self) == key(other) if other.__class__ is self.__class__ else NotImplemented

        def digest(self):
            return hash(key(self))

        def less(self, other):
            return key(self) < key(other) if other.__class__ is self.__class__ else NotImplemented

        def at_most(self, other):
            return key(self) <= key(other) if other.__class__ is self.__class__ else NotImplemented

        def more(self, other):
            return key(self) > key(other) if other.__class__ is self.__class__ else NotImplemented

        def at_least(self, other):
            return key(self) >= key(other) if other.__class__ is self.__class__ else NotImplemented

        made = {"__eq__": equal, "__hash__": digest}
        if order:
            made |= {"__lt__": less, "__le__": at_most, "__gt__": more, "__ge__": at_least}
        return made

    def _refuse_set(self, name, value):  # noqa: ARG001
        from dataclasses import FrozenInstanceError  # noqa: PLC0415

        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def _refuse_delete(self, name):  # noqa: ARG001
        from dataclasses import FrozenInstanceError  # noqa: PLC0415

        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def _state(self):
        return [getattr(self, each.name) for each in self.__record_fields__]

    def _restore(self, state):
        for each, value in zip(self.__record_fields__, state, strict=True):
            object.__setattr__(self, each.name, value)

    # Frozen objects are restored around their own refusal to be set.
    _FROZEN = {
        "__setattr__": _refuse_set,
        "__delattr__": _refuse_delete,
        "__getstate__": _state,
        "__setstate__": _restore,
    }
