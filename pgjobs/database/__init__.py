"""What PostgreSQL itself runs. The files are the current definitions.

- `functions/<area>/<name>.sql` has the function pgjobs_<name>, with its settings. Those
  of a feature stand in `features/<name>/functions/`, or in folders there if they are of
  several areas. The marks for columns of a new job, such as `$columns`, are those of
  `sql/columns.py`.
- `triggers.sql` has all triggers in firing order, and `rights.sql` says who may execute
  what. To change any of these, change the file.
- `constraints/` has the functions that constraints and indexes are made of, and
  `tables/` what Django's models cannot say. A migration runs each of these files once.
  So after the first release they never change, and never move: a change is a new file
  and a new migration.

From the first release on, each release that changed functions, triggers or rights has
a migration with the text of what changed, both ways:

    python -m pgjobs.database freeze 0003_retry_by_batch

The first freeze is that of 0002_functions, which reads the files until then.

The program that a database of this release has, as one file, with the comments:

    python -m pgjobs.database dump
"""
