"""The module `_csv`, which `csv` is written over: readers, writers and dialects, to CPython's rules.

Answers to: `csv`. Must not: read ahead: one line is taken for one row, and more only inside quotes.
"""

QUOTE_MINIMAL, QUOTE_ALL, QUOTE_NONNUMERIC, QUOTE_NONE, QUOTE_STRINGS, QUOTE_NOTNULL = range(6)
__version__ = "1.0"

_dialects = {}
_limit = 128 * 1024


class Error(Exception):
    pass


Error.__module__ = "_csv"


def _character(name, value, none=False):
    if none and value is None:
        return None
    if not isinstance(value, str):
        raise TypeError(f'"{name}" must be string{" or None" if none else ""}, not {type(value).__name__}')
    if len(value) != 1:
        raise TypeError(f'"{name}" must be a 1-character string')
    return value


_DEFAULTS = {
    "delimiter": ",",
    "doublequote": True,
    "escapechar": None,
    "lineterminator": "\r\n",
    "quotechar": '"',
    "quoting": QUOTE_MINIMAL,
    "skipinitialspace": False,
    "strict": False,
}


class Dialect:
    """CSV dialect: how rows are written."""

    __slots__ = tuple("_" + name for name in _DEFAULTS)

    def __new__(cls, dialect=None, **given):
        for name in given:
            if name not in _DEFAULTS:
                raise TypeError(f"'{name}' is an invalid keyword argument for this function")
        if isinstance(dialect, str):
            dialect = get_dialect(dialect)
        if type(dialect) is Dialect and not given:
            return dialect
        values = {}
        for name, default in _DEFAULTS.items():
            values[name] = given[name] if name in given else getattr(dialect, name, default)
        no_quote = values["quotechar"] is None and "quoting" not in given and getattr(dialect, "quoting", None) is None
        self = object.__new__(cls)
        self._check(values, QUOTE_NONE if no_quote else values["quoting"])
        return self

    def _check(self, values, quoting):
        self._delimiter = _character("delimiter", values["delimiter"])
        self._escapechar = _character("escapechar", values["escapechar"], none=True)
        self._quotechar = _character("quotechar", values["quotechar"], none=True)
        self._doublequote = bool(values["doublequote"])
        self._skipinitialspace = bool(values["skipinitialspace"])
        self._strict = bool(values["strict"])
        self._lineterminator = values["lineterminator"]
        if self._lineterminator is None:
            raise TypeError("lineterminator must be set")
        if not isinstance(self._lineterminator, str):
            raise TypeError('"lineterminator" must be a string')
        if type(quoting) is not int:
            raise TypeError('"quoting" must be an integer')
        if not QUOTE_MINIMAL <= quoting <= QUOTE_NOTNULL:
            raise TypeError('bad "quoting" value')
        if quoting != QUOTE_NONE and self._quotechar is None:
            raise TypeError("quotechar must be set if quoting enabled")
        self._quoting = quoting

    def __reduce_ex__(self, protocol):
        raise TypeError(f"cannot pickle '{type(self).__name__}' instances")


for _name in _DEFAULTS:
    setattr(Dialect, _name, property(lambda self, _slot="_" + _name: getattr(self, _slot)))
Dialect.__module__ = "_csv"


def register_dialect(name, dialect=None, /, **given):
    """Create a mapping from a string name to a dialect class."""
    if not isinstance(name, str):
        raise TypeError("dialect name must be a string")
    _dialects[name] = Dialect(dialect, **given)


def unregister_dialect(name):
    """Delete the name/dialect mapping associated with a string name."""
    if name not in _dialects:
        raise Error("unknown dialect")
    del _dialects[name]


def get_dialect(name):
    """Return the dialect instance associated with name."""
    if name not in _dialects:
        raise Error("unknown dialect")
    return _dialects[name]


def list_dialects():
    """Return a list of all known dialect names."""
    return list(_dialects)


def field_size_limit(limit=None):
    """Sets an upper limit on parsed fields, and returns the old one."""
    global _limit
    old = _limit
    if limit is not None:
        if type(limit) is not int:
            raise TypeError("limit must be an integer")
        _limit = limit
    return old


_START_RECORD, _START_FIELD, _ESCAPED, _IN_FIELD, _IN_QUOTED, _ESCAPE_IN_QUOTED, _QUOTE_IN_QUOTED, _EAT_END, _AFTER = range(9)
_SIMPLE = (QUOTE_MINIMAL, QUOTE_ALL, QUOTE_NONE)
_NUMBERS = (QUOTE_NONNUMERIC, QUOTE_STRINGS)
_NULLS = (QUOTE_STRINGS, QUOTE_NOTNULL)


class reader:
    """An iterator over the rows of `lines`."""

    __slots__ = ("dialect", "line_num", "_lines", "_state", "_fields", "_field", "_size", "_bare")

    def __init__(self, lines, dialect=None, **given):
        self._lines = iter(lines)
        self.dialect = Dialect(dialect, **given)
        self.line_num = 0
        self._reset()

    def _reset(self):
        self._state, self._fields, self._field, self._size, self._bare = _START_RECORD, [], [], 0, True

    def __iter__(self):
        return self

    def __next__(self):
        self._reset()
        while True:
            try:
                line = next(self._lines)
            except StopIteration:
                if not self._size and self._state != _IN_QUOTED:
                    raise
                if self.dialect._strict:
                    raise Error("unexpected end of data") from None
                self._save()
                return self._fields
            if not isinstance(line, str):
                kind = type(line).__name__
                raise Error(f"iterator should return strings, not {kind} (the file should be opened in text mode)")
            self.line_num += 1
            if self._state == _START_RECORD:
                fields = self._plain(line)
                if fields is not None:
                    return fields
            step = self._step
            for letter in line:
                step(letter)
            step(None)
            if self._state == _START_RECORD:
                return self._fields

    def _plain(self, line):
        """The row of a line that is as most are, or None."""
        dialect = self.dialect
        if dialect._delimiter in "\r\n " or len(line) > _limit:
            return None
        if dialect._quoting not in _SIMPLE or dialect._skipinitialspace or dialect._escapechar is not None:
            return None
        if dialect._quotechar is not None and dialect._quotechar in line:
            if dialect._quoting == QUOTE_NONE or not dialect._doublequote:
                return None
            return _row(line, dialect._delimiter, dialect._quotechar)
        line = line.rstrip("\r\n")
        if "\n" in line or "\r" in line:
            return None
        return line.split(dialect._delimiter) if line else []

    def _add(self, letter):
        self._size += 1
        if self._size > _limit:
            raise Error(f"field larger than field limit ({_limit})")
        self._field.append(letter)

    def _save(self):
        field = "".join(self._field)
        quoting = self.dialect._quoting
        if self._bare and not field and quoting in _NULLS:
            field = None
        elif self._bare and field and quoting in _NUMBERS:
            field = float(field)
        self._fields.append(field)
        self._field, self._size, self._bare = [], 0, True

    def _end(self, letter):
        self._save()
        self._state = _START_RECORD if letter is None else _EAT_END

    def _step(self, letter):
        state, dialect = self._state, self.dialect
        if state == _START_RECORD:
            if letter is None:
                return
            if letter == "\n" or letter == "\r":
                self._state = _EAT_END
                return
            state = self._state = _START_FIELD
        if state == _AFTER:
            if letter is None:
                return
            state = _IN_FIELD
        if state == _IN_FIELD:
            self._in_field(letter, dialect)
        elif state == _IN_QUOTED:
            self._in_quoted(letter, dialect)
        elif state == _START_FIELD:
            self._start_field(letter, dialect)
        elif state == _QUOTE_IN_QUOTED:
            self._after_quote(letter, dialect)
        elif state == _ESCAPED:
            self._state = _AFTER if letter == "\n" or letter == "\r" else _IN_FIELD
            self._add("\n" if letter is None else letter)
        elif state == _ESCAPE_IN_QUOTED:
            self._add("\n" if letter is None else letter)
            self._state = _IN_QUOTED
        elif letter is None:
            self._state = _START_RECORD
        elif letter != "\n" and letter != "\r":
            raise Error(
                "new-line character seen in unquoted field - "
                "do you need to open the file in universal-newline mode?"
            )

    def _in_field(self, letter, dialect):
        if letter is None or letter == "\n" or letter == "\r":
            self._end(letter)
        elif letter == dialect._escapechar:
            self._state = _ESCAPED
        elif letter == dialect._delimiter:
            self._save()
            self._state = _START_FIELD
        else:
            self._add(letter)

    def _in_quoted(self, letter, dialect):
        if letter is None:
            return
        if letter == dialect._escapechar:
            self._state = _ESCAPE_IN_QUOTED
        elif letter == dialect._quotechar and dialect._quoting != QUOTE_NONE:
            self._state = _QUOTE_IN_QUOTED if dialect._doublequote else _IN_FIELD
        else:
            self._add(letter)

    def _start_field(self, letter, dialect):
        if letter is None or letter == "\n" or letter == "\r":
            self._end(letter)
        elif letter == dialect._quotechar and dialect._quoting != QUOTE_NONE:
            self._bare = False
            self._state = _IN_QUOTED
        elif letter == dialect._escapechar:
            self._bare = self._bare and dialect._quoting != QUOTE_NONNUMERIC
            self._state = _ESCAPED
        elif letter == " " and dialect._skipinitialspace:
            pass
        elif letter == dialect._delimiter:
            self._save()
        else:
            self._state = _IN_FIELD
            self._add(letter)

    def _after_quote(self, letter, dialect):
        if letter is None or letter == "\n" or letter == "\r":
            self._end(letter)
        elif letter == dialect._quotechar and dialect._quoting != QUOTE_NONE:
            self._add(letter)
            self._state = _IN_QUOTED
        elif letter == dialect._delimiter:
            self._save()
            self._state = _START_FIELD
        elif not dialect._strict:
            self._add(letter)
            self._state = _IN_FIELD
        else:
            raise Error(f"'{dialect._delimiter}' expected after '{dialect._quotechar}'")


reader.__module__ = "_csv"


class writer:
    """Writes rows to `file`."""

    __slots__ = ("dialect", "_write", "_special")

    def __init__(self, file, dialect=None, **given):
        write = getattr(file, "write", None)
        if not callable(write):
            raise TypeError('argument 1 must have a "write" method')
        self._write = write
        self.dialect = dialect = Dialect(dialect, **given)
        given = (dialect._delimiter, dialect._escapechar, dialect._quotechar, dialect._lineterminator)
        self._special = frozenset("".join(part for part in given if part is not None))

    def writerow(self, row, /):
        """Construct and write a CSV record from an iterable of fields."""
        try:
            fields = iter(row)
        except TypeError:
            raise Error(f"iterable expected, not {type(row).__name__}") from None
        dialect = self.dialect
        texts = [self._text(field, dialect) for field in fields]
        if texts == [""]:
            if dialect._quoting == QUOTE_NONE:
                raise Error("single empty field record must be quoted")
            texts = [dialect._quotechar * 2]
        return self._write(dialect._delimiter.join(texts) + dialect._lineterminator)

    def writerows(self, rows, /):
        """Construct and write a series of iterables to a csv file."""
        for row in rows:
            self.writerow(row)

    def _text(self, field, dialect):
        quoting = dialect._quoting
        text = field if type(field) is str else "" if field is None else str(field)
        if quoting == QUOTE_ALL:
            quoted = True
        elif quoting == QUOTE_NONNUMERIC:
            quoted = not _is_number(field)
        elif quoting == QUOTE_STRINGS:
            quoted = isinstance(field, str)
        else:
            quoted = quoting == QUOTE_NOTNULL and field is not None
        if not self._special.isdisjoint(text):
            text, quoted = self._escaped(text, quoted, dialect)
        return f"{dialect._quotechar}{text}{dialect._quotechar}" if quoted else text

    def _escaped(self, text, quoted, dialect):
        parts, special = [], self._special
        for letter in text:
            if letter in special:
                escape = dialect._quoting == QUOTE_NONE
                if not escape and letter == dialect._quotechar:
                    if dialect._doublequote:
                        parts.append(letter)
                    else:
                        escape = True
                elif not escape and letter == dialect._escapechar:
                    escape = True
                if not escape:
                    quoted = True
                elif dialect._escapechar is None:
                    raise Error("need to escape, but no escapechar set")
                else:
                    parts.append(dialect._escapechar)
            parts.append(letter)
        return "".join(parts), quoted


writer.__module__ = "_csv"


def _is_number(value):
    kind = type(value)
    return any(hasattr(kind, name) for name in ("__float__", "__int__", "__index__")) or kind is complex
