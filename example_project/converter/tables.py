"""Turn CSV into Parquet and back; pyarrow does it without holding the GIL."""

from collections import Counter
from io import BytesIO
from typing import NamedTuple

import pyarrow as pa
from pyarrow import csv, parquet

ROWS_PER_BATCH = 20_000
MAX_COLUMNS = 1_000
MAX_UNPACKED_BYTES = 256 * 1024 * 1024

# What pyarrow raises about a bad file, depending on where it is bad.
BAD_FILE_ERRORS = (pa.ArrowException, OSError, UnicodeDecodeError)


class UnreadableTable(Exception):
    """The file is not what its name says, or cannot be converted."""


class Converted(NamedTuple):
    """A converted table and its size."""

    content: bytes
    rows: int
    columns: int


def convert_table(content: bytes, suffix: str, report) -> Converted:
    """Convert by suffix, and call report(rows done, rows in total) now and then."""
    convert = {".csv": csv_to_parquet, ".parquet": parquet_to_csv}[suffix]
    try:
        return convert(content, report)
    except BAD_FILE_ERRORS as error:
        raise UnreadableTable(f"Not a readable {suffix[1:]} file: {error}") from error


def csv_to_parquet(content: bytes, report) -> Converted:
    """Convert CSV whose first line holds the column names."""
    _check_csv(content)
    table = csv.read_csv(
        BytesIO(content), parse_options=csv.ParseOptions(newlines_in_values=True)
    )
    _check_names(table.column_names)
    output = BytesIO()
    with parquet.ParquetWriter(output, table.schema) as writer:
        for start in range(0, table.num_rows, ROWS_PER_BATCH):
            report(start, table.num_rows)
            writer.write_table(table.slice(start, ROWS_PER_BATCH))
    return Converted(output.getvalue(), table.num_rows, table.num_columns)


def parquet_to_csv(content: bytes, report) -> Converted:
    """Convert Parquet with flat columns."""
    file = parquet.ParquetFile(BytesIO(content))
    _check_parquet(file.metadata)
    output, done = BytesIO(), 0
    with csv.CSVWriter(output, file.schema_arrow) as writer:
        for batch in file.iter_batches(ROWS_PER_BATCH):
            report(done, file.metadata.num_rows)
            writer.write_batch(batch)
            done += batch.num_rows
            _check_size(output.tell())
    return Converted(output.getvalue(), done, file.metadata.num_columns)


def _check_csv(content):
    try:
        content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # Else pyarrow would quietly read the column as bytes.
        raise UnreadableTable(f"The CSV is not UTF-8 at byte {error.start}.") from error
    header = content.partition(b"\n")[0]
    if header.count(b",") >= MAX_COLUMNS:
        raise UnreadableTable(f"The CSV has more than {MAX_COLUMNS} columns.")


def _check_names(names):
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise UnreadableTable(f"The CSV has two columns named {twice[0]!r}.")


def _check_parquet(metadata):
    if metadata.num_columns > MAX_COLUMNS:
        raise UnreadableTable(f"The Parquet has more than {MAX_COLUMNS} columns.")
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    _check_size(sum(group.total_byte_size for group in groups))


def _check_size(size):
    if size > MAX_UNPACKED_BYTES:
        limit = MAX_UNPACKED_BYTES // (1024 * 1024)
        raise UnreadableTable(f"The table unpacks to more than {limit} MiB.")
