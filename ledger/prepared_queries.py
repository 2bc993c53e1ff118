"""Prepared queries: hot-path queries whose SQL is compiled once, because building it costs more than running it.

``@prepared`` turns a function that returns a queryset into a ``PreparedQuery`` query; its parameters become the query's. The
SQL is compiled at the first use on each kind of database; after that a read executes the statement and builds the rows
as Django does. ``PreparedUpdate`` and ``insert_row`` do the same for writes. The SQL text must not depend on the values: no
list of variable length, no optional filter. Only the text is cached.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

import psycopg
from django.db import DEFAULT_DB_ALIAS, NotSupportedError, OperationalError, connections
from django.db.backends.postgresql.operations import DatabaseOperations
from django.db.models import (
    BigIntegerField,
    BooleanField,
    CharField,
    DateTimeField,
    Expression,
    Field,
    ForeignKey,
    Model,
    QuerySet,
    Subquery,
    TextChoices,
    TextField,
)
from django.db.models.base import ModelState
from django.db.models.constants import OnConflict
from django.db.models.query import ModelIterable
from django.db.models.sql import InsertQuery, UpdateQuery

R = TypeVar("R")
M = TypeVar("M", bound=Model)


class StalePreparedStatement(OperationalError):
    """A table has changed under a prepared statement. The rollback discards what the connection prepared."""


class RowExists(OperationalError):
    """A concurrent transaction has committed the row that this one inserts. The use case tries again, and reads it."""


class Parameter(Expression):
    """A query parameter: each use of the query supplies its value, which ``field`` converts for the database."""

    def __init__(self, name: str, field: Field[Any, Any]) -> None:
        super().__init__(output_field=field)
        self.name = name
        self.conversions = _conversions(field)

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        return "%s", [self]

    def value_of(self, values: dict[str, Any], here: Any) -> Any:
        value = values[self.name]
        convert = self.conversions.get(type(value)) if here.vendor == "postgresql" else None
        return self.output_field.get_db_prep_save(value, here) if convert is None else convert(value)


class StatementTime(Parameter):
    """The time at which the statement starts. It finds rows, which are then checked by ``clock.now`` under a lock."""

    def __init__(self) -> None:
        super().__init__("", DateTimeField())

    def as_postgresql(self, compiler: Any, connection: Any) -> Any:
        return "STATEMENT_TIMESTAMP()", []

    def value_of(self, values: dict[str, Any], here: Any) -> Any:
        return self.output_field.get_db_prep_value(datetime.now(UTC), here)


class CurrentTime(StatementTime):
    """The time at which the database computes this column, for statements that read it after a lock (``ledger.clock``)."""

    def as_postgresql(self, compiler: Any, connection: Any) -> Any:
        return "CLOCK_TIMESTAMP()", []


class NextKey(Expression):
    """The next primary key of a model, so that rows of one statement can refer to a row that it inserts. SQLite: NULL."""

    def __init__(self, model: type[Model]) -> None:
        super().__init__(output_field=BigIntegerField(null=True))
        self.model = model

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        return "NULL", []

    def as_postgresql(self, compiler: Any, connection: Any) -> Any:
        return f"nextval(pg_get_serial_sequence('{self.model._meta.db_table}', '{self.model._meta.pk.column}'))", []


def reserve_keys(count: int, *models: type[Model]) -> list[tuple[int | None, ...]]:
    """Reserve the primary keys of ``count`` rows of each model, as ``NextKey`` does for one. SQLite: ``None``."""
    here = _here()
    if here.vendor != "postgresql":
        return [(None,) * len(models)] * count
    keys = ", ".join(NextKey(model).as_postgresql(None, here)[0] for model in models)
    with executed(f"SELECT {keys} FROM generate_series(1, %s)", [count], here) as cursor:  # noqa: S608  names of tables
        return [tuple(row) for row in cursor.fetchall()]


class RowList(Subquery):
    """Rows of a queryset in one column of another query, so that one statement reads both.

    The column has a list of model instances with these fields (numbers, booleans, times, texts and exact JSON), in the
    queryset's order; others are deferred.
    """

    def __init__(self, rows: QuerySet[Any], *names: str) -> None:
        fields = [rows.model._meta.get_field(name) for name in names]
        columns = [field.attname for field in fields]
        super().__init__(rows.values(*columns), output_field=_RowListField(rows.model, fields))
        self.members = ", ".join(f'listed."{column}"' for column in columns)

    def as_sql(self, compiler: Any, connection: Any, template: str | None = None, **context: Any) -> Any:
        listed = f"json_group_array(json_array({self.members}))"
        if connection.vendor == "postgresql":
            listed = f"json_agg(json_build_array({self.members}))::text"
        template = f"(SELECT {listed} FROM (%(subquery)s) AS listed)"  # noqa: S608  names of columns
        return super().as_sql(compiler, connection, template=template, **context)


class _RowListField(TextField):  # type: ignore[type-arg]  # not subscriptable without a monkey patch
    """Makes model instances of the text of a ``RowList``."""

    def __init__(self, model: type[Model], fields: list[Any]) -> None:
        super().__init__()
        self.listed, self.names = model, [field.attname for field in fields]
        self.conversions = [(place, read) for place, field in enumerate(fields) if (read := _reader_of(field))]

    def from_db_value(self, text: str | None, _expression: object, here: Any) -> list[Model]:
        rows = json.loads(text) if text else []
        for row in rows:
            for place, convert in self.conversions:
                row[place] = None if row[place] is None else convert(row[place])
        return [_make_instance(self.listed, zip(self.names, row, strict=True), here.alias) for row in rows]


def _reader_of(field: Any) -> Callable[[Any], Any] | None:
    """Return how a value of a field is read from the JSON of the database; ``None``: as it is."""
    if isinstance(field, DateTimeField):
        return _read_datetime
    if isinstance(field, BooleanField):
        return bool  # a number on SQLite
    return functools.partial(_from_text, field) if hasattr(field, "from_db_value") else None


def _read_datetime(text: str) -> datetime:
    """Return a time in UTC from the JSON of the database; SQLite writes it without a zone."""
    read = datetime.fromisoformat(text)
    return read.astimezone(UTC) if read.tzinfo else read.replace(tzinfo=UTC)


def _from_text(field: Any, text: str) -> Any:
    return field.from_db_value(text, None, None)


def _make_instance(model: type[M], columns: Iterable[tuple[str, Any]], db: str) -> M:
    """Set the attributes at once. ``Model.__init__`` sets them one by one and sends two signals; no code listens here."""
    row = model.__new__(model)
    row._state = ModelState()
    row._state.adding, row._state.db = False, db
    row.__dict__.update(columns)
    return row


def int_parameter(name: str) -> Parameter:
    return Parameter(name, BigIntegerField())


def text_parameter(name: str) -> Parameter:
    return Parameter(name, CharField())


def datetime_parameter(name: str) -> Parameter:
    return Parameter(name, DateTimeField())


#: The parameter for each annotation of a function that ``prepared`` decorates.
_PARAMETERS: dict[str, Callable[[str], Parameter]] = {
    "int": int_parameter,
    "str": text_parameter,
    "datetime": datetime_parameter,
}


class PreparedQuery(Generic[R]):
    """A prepared query of model instances, with rows joined by ``select_related``, or of ``values_list`` tuples."""

    def __init__(self, build: Callable[[], QuerySet[Any, R]]) -> None:
        self._build = build
        self._texts: dict[str, _Text] = {}

    def all(self, **values: Any) -> list[R]:
        """Return the rows for these values of the parameters."""
        here = _here()
        compiled = self._texts.get(here.vendor)
        if compiled is None:
            compiled = self._texts[here.vendor] = _Text(self._build())
        return compiled.rows(values, here)

    def first(self, **values: Any) -> R | None:
        """Return the first row. All rows are read, so the queryset sets the limit."""
        return next(iter(self.all(**values)), None)

    def forget(self) -> None:
        """Discard the SQL, so that tests can change what it is built from."""
        self._texts.clear()


def prepared(build: Callable[..., QuerySet[Any, R]]) -> PreparedQuery[R]:
    """Decorate a function that builds a queryset from parameters annotated as ``int``, ``str`` or ``datetime``."""
    return PreparedQuery(lambda: _built(build))


def _built(build: Callable[..., QuerySet[Any, R]]) -> QuerySet[Any, R]:
    annotations = {name: kind for name, kind in build.__annotations__.items() if name != "return"}
    return build(**{name: _PARAMETERS[kind](name) for name, kind in annotations.items()})


class PreparedUpdate:
    """A prepared UPDATE of some columns; each use supplies the values of the columns and of the queryset's parameters."""

    def __init__(self, build: Callable[..., QuerySet[Any]], columns: Iterable[str]) -> None:
        self._build = build
        self._columns = tuple(columns)
        self._texts: dict[str, tuple[str, str, Any]] = {}

    def write(self, **values: Any) -> int:
        """Execute the UPDATE and return the number of rows."""
        here = _here()
        _, text, converted = self.statement(here, values)
        with executed(text, converted, here) as cursor:
            return int(cursor.rowcount)

    def statement(self, here: Any, values: dict[str, Any]) -> tuple[str, str, list[Any]]:
        """Return the table, the SQL and its parameters for the connection ``here``."""
        compiled = self._texts.get(here.vendor)
        if compiled is None:
            compiled = self._texts[here.vendor] = self._compile(here)
        table, text, params = compiled
        return table, text, _with_values(params, values, here)

    def _compile(self, here: Any) -> tuple[str, str, Any]:
        query: Any = _built(self._build).query.chain(UpdateQuery)
        fields = query.get_meta()
        query.add_update_values({name: Parameter(name, fields.get_field(name)) for name in self._columns})
        return (fields.db_table, *_with_constants(query.get_compiler(connection=here).as_sql(), here))


def insert_row(row: M) -> M:
    """Insert a new row as ``save(force_insert=True)`` would, and return it with its primary key."""
    if not _insert(row, None):
        raise RuntimeError(f"{type(row).__name__}: the database returned no primary key")
    return row


def insert_row_if_new(row: Model) -> bool:
    """Insert a row unless a unique constraint prevents it (ON CONFLICT DO NOTHING); False if it does.

    It waits for the commit of a concurrent transaction that inserts the same, which a later statement then reads.
    """
    return _insert(row, OnConflict.IGNORE)


def _insert(row: Model, on_conflict: OnConflict | None) -> bool:
    here = _here()
    text, values = insert_statement(row, here, on_conflict)
    with executed(text, values, here) as cursor:
        returned = cursor.fetchone()
    if returned is None:
        return False
    row.pk = returned[0]
    row._state.adding, row._state.db = False, here.alias
    return True


def insert_statement(row: Model, here: Any, on_conflict: OnConflict | None = None) -> tuple[str, list[Any]]:
    """Return the INSERT of a row, which returns its primary key, and its parameters for the connection ``here``.

    Raises ``RuntimeError`` if a related row has no key yet: the foreign key would be written as NULL.
    """
    model, is_numbered = type(row), row.pk is not None
    place = (here.vendor, model, is_numbered, on_conflict)
    insert = _inserts.get(place)
    if insert is None:
        insert = _inserts[place] = _Insert(row, here, on_conflict)
    return insert.text, insert.values(row, here)


class _Insert:
    """The INSERT of rows of a model: its text, and how the columns of a row become its parameters."""

    def __init__(self, row: Model, here: Any, on_conflict: OnConflict | None) -> None:
        fields: list[Any] = [it for it in row._meta.local_concrete_fields if row.pk is not None or not it.primary_key]
        query = InsertQuery(type(row), on_conflict=on_conflict)
        query.insert_values(fields, [row])
        compiler = query.get_compiler(connection=here)
        compiler.returning_fields = [row._meta.pk]
        self.text: str = compiler.as_sql()[0][0]
        self.columns = [(field.attname, _conversions(field), field) for field in fields]
        self.relations = [field for field in fields if field.is_relation]
        self.filled_in = [it for it in fields if getattr(it, "auto_now", False) or getattr(it, "auto_now_add", False)]

    def values(self, row: Model, here: Any) -> list[Any]:
        """Return the parameters, as ``Field.get_db_prep_save`` does, whose general way took a tenth of an insert."""
        for field in self.relations:
            _set_foreign_key(row, field)
        for field in self.filled_in:
            field.pre_save(row, add=True)  # sets the attribute
        columns = row.__dict__
        if here.vendor != "postgresql":
            return [field.get_db_prep_save(columns[name], here) for name, _, field in self.columns]
        return [
            convert(value)
            if (convert := conversions.get(type(value := columns[name])))
            else field.get_db_prep_save(value, here)
            for name, conversions, field in self.columns
        ]


def _conversions(field: Any) -> dict[type, Callable[[Any], Any]]:
    """Return, by type, how plain values of a field are converted for PostgreSQL; Django converts all others.

    Integers get the type of their column. Django sends keys as the smallest type that fits, so that a statement would be
    prepared again for larger keys.
    """
    stored = field.target_field if isinstance(field, ForeignKey) else field
    if type(stored) in {CharField, TextField}:
        return dict.fromkeys([str, type(None), *TextChoices.__subclasses__()], _unchanged)
    if type(stored) is BooleanField:
        return {bool: _unchanged, type(None): _unchanged}
    if type(stored) is DateTimeField:
        return {datetime: _aware, type(None): _unchanged}
    kind: str = stored.get_internal_type()
    sized = {"AutoField": "IntegerField", "BigAutoField": "BigIntegerField"}.get(kind, kind)
    types = DatabaseOperations.integerfield_type_map
    return {int: types[sized], type(None): _unchanged} if sized in types else {}


def _unchanged(value: Any) -> Any:
    return value


def _aware(value: datetime) -> datetime:
    if value.tzinfo is None:
        raise ValueError(f"{value} has no time zone")
    return value


def _set_foreign_key(row: Model, field: Any) -> None:
    """Take the key of a related row that was inserted after it was assigned, as ``save`` does."""
    related = field.get_cached_value(row, default=None)
    if related is None:
        return
    key = getattr(related, field.target_field.attname)
    if key is None:
        raise RuntimeError(f"{type(row).__name__}.{field.name} must be inserted first: it has no primary key yet")
    if getattr(row, field.attname) is None:
        setattr(row, field.attname, key)


_inserts: dict[tuple[str, type[Model], bool, OnConflict | None], _Insert] = {}


def _here() -> Any:
    """Return this thread's connection. `django.db.connection` would look it up at every attribute access."""
    return connections[DEFAULT_DB_ALIAS]


@contextmanager
def executed(text: str, values: list[Any], here: Any) -> Iterator[Any]:
    """Execute a statement and yield the cursor with its rows.

    After a migration changed a table, PostgreSQL refuses statements that a connection prepared before. Outside a
    transaction they are prepared again here; inside one, ``StalePreparedStatement`` makes the use case try again.
    """
    with _cursor(here) as cursor:
        try:
            cursor.execute(text, values)
        except NotSupportedError as error:
            if not _is_of_an_old_plan(error):
                raise
            if here.in_atomic_block:
                raise StalePreparedStatement(*error.args) from error
            here.connection.execute("DEALLOCATE ALL", prepare=False)
            cursor.execute(text, values)
        yield cursor


def _is_of_an_old_plan(error: NotSupportedError) -> bool:
    """Recognise the error by its source function in PostgreSQL, because the message is localised."""
    cause = error.__cause__
    return isinstance(cause, psycopg.Error) and cause.diag.source_function == "RevalidateCachedQuery"


class PreparedCursor(psycopg.RawCursor[Any]):
    """A cursor whose statements are prepared. It sends ``$1`` for ``%s``, in a text that is converted once.

    psycopg converts a text of more than 4,096 characters again at each execution, which took a tenth of an ask.
    """

    def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
        return super().execute(_numbered(query), params, **options)


@functools.lru_cache(maxsize=1024)
def _numbered(text: str) -> str:
    """Return the SQL with ``$1``, ``$2`` ... instead of ``%s``."""
    places = itertools.count(1)
    return re.sub("%%|%s", lambda found: "%" if found[0] == "%%" else f"${next(places)}", text)


def _cursor(here: Any) -> Any:
    """Return a cursor; on PostgreSQL one with server-side parameters, so that each statement is parsed and planned once.

    While Django logs statements, return Django's own cursor, whose log shows the values.
    """
    if here.vendor != "postgresql" or here.queries_logged:
        return here.cursor()
    here.close_if_health_check_failed()
    here.ensure_connection()
    return here._prepare_cursor(PreparedCursor(here.connection))


def _with_constants(statement: Any, here: Any) -> tuple[str, list[Any]]:
    """Return the SQL with constant values inlined, and the parameters that remain.

    PostgreSQL plans it once for all values (``plan_cache_mode``), and can use a partial index only if the text itself
    has the value of its condition.
    """
    sql, named = statement[0], list(statement[1])
    if here.vendor != "postgresql":
        return sql, named
    before, *parts = sql.split("%s")
    written = ["%s" if isinstance(param, Parameter) else _literal(param, here) for param in named]
    text = before + "".join(value + part for value, part in zip(written, parts, strict=True))
    return text, [param for param in named if isinstance(param, Parameter)]


def _literal(value: Any, here: Any) -> str:
    text: str = here.ops.compose_sql("%s", [value])
    return text.replace("%", "%%")


def _with_values(params: Iterable[Any], values: dict[str, Any], here: Any) -> list[Any]:
    return [param.value_of(values, here) if isinstance(param, Parameter) else param for param in params]


class _Text:
    """The SQL of a queryset, and how its columns become rows (as Django's ``ModelIterable`` does it)."""

    def __init__(self, queryset: QuerySet[Any]) -> None:
        compiler = queryset.query.get_compiler(using=queryset.db)
        self.sql, self.params = _with_constants(compiler.as_sql(), connections[queryset.db])
        self.compiler = compiler
        self.converters = compiler.get_converters(itertools.chain(column[0] for column in compiler.select))
        self.of_rows = queryset._iterable_class is ModelIterable
        if not self.of_rows:
            return
        self.instance = _Instance(compiler.klass_info, compiler.select, queryset.db)
        self.annotated = dict(compiler.annotation_col_map)

    def rows(self, values: dict[str, Any], here: Any) -> list[Any]:
        with executed(self.sql, _with_values(self.params, values, here), here) as cursor:
            found = cursor.fetchall()
        converted = self._converted(found)
        return [self._row(columns) for columns in converted] if self.of_rows else [tuple(row) for row in converted]

    def _converted(self, found: list[Any]) -> Any:
        # The converters hold the connection that compiled them, and use only its vendor.
        return self.compiler.apply_converters(found, self.converters) if self.converters else found

    def _row(self, columns: Any) -> Any:
        row = self.instance.make(columns)
        for name, place in self.annotated.items():
            setattr(row, name, columns[place])
        return row


class _Instance:
    """How some columns of a result become a model instance, with those that ``select_related`` joins."""

    def __init__(self, info: dict[str, Any], select: Any, db: str) -> None:
        self.model, self.db = info["model"], db
        self.first, self.end = info["select_fields"][0], info["select_fields"][-1] + 1
        self.names = [column[0].target.attname for column in select[self.first : self.end]]
        self.pk = self.first + self.names.index(self.model._meta.pk.attname)
        self.related = [
            (_Instance(related, select, db), related["local_setter"], related["remote_setter"])
            for related in info.get("related_klass_infos", [])
        ]

    def make(self, columns: Any) -> Any:
        row: Any = _make_instance(self.model, zip(self.names, columns[self.first : self.end], strict=True), self.db)
        for instance, set_here, set_there in self.related:
            joined = None if columns[instance.pk] is None else instance.make(columns)
            set_here(row, joined)
            if joined is not None:
                set_there(joined, row)
        return row
