#!/bin/sh
# pyspark 4.2.0: a stateful streaming query ends with STATE_STORE_COMMIT_VALIDATION_FAILED if its foreachBatch function
# returns without reading the batch. A stateless query does not mind. The error in Python says "Exception thrown in
# awaitResult: SQLSTATE: XXKST" and not why; the class of the error is in the log of the driver only.
#
# Expected: foreachBatch may skip a batch. The idiom for exactly-once output is to compare batchId with the last one that
# was written, and to return if it was written before; after a crash Spark repeats a batch with its id.
# Seen: the batch whose plan did not run commits no state store, and Spark's check of the commits ends the query. After a
# restart the same batch is skipped again, and the query ends again.
# So: whoever skips a batch must still run its plan, for example by frame.collect() or a noop sink.
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
(folder / "in" / "a.json").write_text('{"key": "k", "n": 7}\n')
settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1"}
spark = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
rows = spark.readStream.schema("key string, n int").json(str(folder / "in"))


def count(key, frames, state):
    seen = sum(len(frame) for frame in frames)
    state.update((seen,))
    yield pd.DataFrame({"key": [key[0]], "seen": [seen]})


def outcome(frame, on_batch):
    writer = frame.writeStream.foreachBatch(on_batch).option("checkpointLocation", tempfile.mkdtemp(dir=folder))
    query = writer.trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    except Exception as error:
        text = str(error).partition("===")[0]
        return "Exception thrown in awaitResult: SQLSTATE: XXKST" if "SQLSTATE: XXKST" in text else text
    return "completed"


def skip(frame, batch_id):
    """Returns as if the batch had been written before."""


def read(frame, batch_id):
    frame.collect()


counted = rows.groupBy("key").applyInPandasWithState(
    count, "key string, seen long", "seen long", "append", GroupStateTimeout.NoTimeout
)
found = {
    "stateless, skipped": outcome(rows, skip),
    "dropDuplicates, read": outcome(rows.dropDuplicates(["key"]), read),
    "dropDuplicates, skipped": outcome(rows.dropDuplicates(["key"]), skip),
    "applyInPandasWithState, read": outcome(counted, read),
    "applyInPandasWithState, skipped": outcome(counted, skip),
}
print("pyspark", spark.version)
for name, text in found.items():
    print(f"{name}: {text}")
failed = {name for name, text in found.items() if "XXKST" in text}
completed = {name for name, text in found.items() if text == "completed"}
assert failed == {"dropDuplicates, skipped", "applyInPandasWithState, skipped"}, found
assert completed == found.keys() - failed, found
PYTHON
PYSPARK_PYTHON="$folder/venv/bin/python" TMPDIR="$folder" "$folder/venv/bin/python" "$folder/shown.py" 2>"$folder/log" &&
    grep -q STATE_STORE_COMMIT_VALIDATION_FAILED "$folder/log" || {
    tail -5 "$folder/log"
    echo "the behaviour has changed"
    exit 1
}
echo "the log of the driver: STATE_STORE_COMMIT_VALIDATION_FAILED"
