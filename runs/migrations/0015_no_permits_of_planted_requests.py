"""A planted request gets no permit and no continuation, also from a node whose version does not know ``Run.planted``.

On SQLite the triggers are lost if a migration rebuilds ``runs_permit`` or ``runs_continuation``, so it creates them again.
"""

from django.db import migrations

TABLES = ("runs_permit", "runs_continuation")
_FUNCTION = "refuse_row_of_planted_run"
_MESSAGE = "a planted request has no permit and no continuation"
_FUNCTION_ON_POSTGRESQL = f"""
    CREATE OR REPLACE FUNCTION {_FUNCTION}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF EXISTS (SELECT 1 FROM runs_run WHERE id = NEW.run_id AND planted)
    THEN RAISE EXCEPTION '{_MESSAGE}' USING ERRCODE = 'restrict_violation'; END IF;
    RETURN NEW; END $$
"""  # noqa: S608  our own texts


def create_triggers(apps, schema_editor):
    drop_triggers(apps, schema_editor)
    is_sqlite = schema_editor.connection.vendor == "sqlite"
    if not is_sqlite:
        schema_editor.execute(_FUNCTION_ON_POSTGRESQL, params=None)
    for table in TABLES:
        create = f'CREATE TRIGGER "{table}_refuses_planted" BEFORE INSERT ON "{table}" FOR EACH ROW '
        if is_sqlite:
            planted = "EXISTS (SELECT 1 FROM runs_run WHERE id = NEW.run_id AND planted)"
            create += f"WHEN {planted} BEGIN SELECT RAISE(ABORT, '{_MESSAGE}'); END"
        else:
            create += f"EXECUTE FUNCTION {_FUNCTION}()"
        schema_editor.execute(create, params=None)


def drop_triggers(apps, schema_editor):
    for table in TABLES:
        on = "" if schema_editor.connection.vendor == "sqlite" else f' ON "{table}"'
        schema_editor.execute(f'DROP TRIGGER IF EXISTS "{table}_refuses_planted"{on}', params=None)


class Migration(migrations.Migration):
    dependencies = [("runs", "0014_planted_requests")]
    reviewed = (
        "The triggers refuse only rows of planted requests, which the code before them does not make. "
        "It answers a decision of one with an error, and nothing reaches the agent."
    )

    operations = [migrations.RunPython(create_triggers, drop_triggers)]
