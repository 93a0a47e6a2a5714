#!/bin/sh
# pyspark 4.2.0: the columns of applyInPandasWithState's state are read from a checkpoint by position. A query that
# restarts with the same types and other names, or with two columns swapped, gets the values of the wrong columns.
#
# Expected: a restart compares the schema of the state with the stored one, and refuses other names as it refuses other
# types (STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE).
# Seen: names are not compared. (epoch=41, leader=3) is read as (leader=41, epoch=3), without an error or a warning.
# So: give the state one binary column with a version of its own, or never reorder and rename.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet pyspark==4.2.0 pandas==2.3.3 pyarrow==26.0.1 numpy==2.4.6
cat > "$folder/shown.py" <<'PYTHON'
import tempfile
from pathlib import Path

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql.streaming.state import GroupStateTimeout

folder = Path(tempfile.mkdtemp())
(folder / "in").mkdir()
settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1"}
spark = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()


def before(fields, file, value):
    """Runs the query on one more row, with these columns of the state; returns the state before the row."""
    (folder / "in" / file).write_text('{"key": "k"}\n')

    def step(key, frames, state):
        for _ in frames:
            pass
        found = state.get if state.exists else None
        state.update(value)
        yield pd.DataFrame({"before": [str(found)]})

    rows = spark.readStream.schema("key string").json(str(folder / "in"))
    output = rows.groupBy("key").applyInPandasWithState(
        step, "before string", fields, "append", GroupStateTimeout.NoTimeout
    )
    collected = []
    writer = output.writeStream.foreachBatch(lambda frame, _: collected.extend(row.before for row in frame.collect()))
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    except Exception as error:
        text = f"{error} {query.exception()}"
        return "refused" if "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE" in text else text[:300]
    return collected[0]


print("pyspark", spark.version)
found = [
    before("epoch long, leader long", "1.json", (41, 3)),
    before("leader long, epoch long", "2.json", (41, 3)),
    before("first long, second long", "3.json", (41, 3)),
    before("leader string, epoch long", "4.json", ("x", 3)),
]
print("a new state:", found[0])
print("stored as (epoch, leader), read as (leader, epoch):", found[1])
print("read as (first, second):", found[2])
print("read with another type:", found[3])
assert found == ["None", "(41, 3)", "(41, 3)", "refused"], found
PYTHON
PYSPARK_PYTHON="$folder/venv/bin/python" TMPDIR="$folder" "$folder/venv/bin/python" "$folder/shown.py" 2>"$folder/log" || {
    tail -5 "$folder/log"
    echo "the behaviour has changed"
    exit 1
}
