#!/usr/bin/env bash
# In confluent-kafka for Python, the truth value of a Message is whether its value has bytes: a
# tombstone (null value) and a record with an empty value are false. The common loop
# `if message and not message.error()` passes over tombstones without an error, so a reader of a
# compacted topic keeps deleted keys. `message is not None` is the check that works.
#
# Versions: confluent-kafka 2.16.1 (Python), with the mock cluster of librdkafka 2.16.1
# Source: truth value testing of Python (an object whose __len__ returns 0 is false)
. "$(dirname "$0")/lib.bash"
python_packages confluent-kafka==2.16.1

cat > "$work/run.py" <<'PY'
from confluent_kafka import Producer

seen = {}
def delivered(error, message):
    seen[message.key()] = (error, len(message), bool(message))

producer = Producer({'test.mock.num.brokers': 1, 'log_level': 0})
for key, value in ((b'value', b'v'), (b'empty', b''), (b'tombstone', None)):
    producer.produce('entities', key=key, value=value, on_delivery=delivered)
producer.flush(60)
for key in (b'value', b'empty', b'tombstone'):
    error, length, truth = seen[key]
    print(f'{key.decode()}: error {error}, length {length}, truth value {truth}')
PY
output=$("$python" "$work/run.py" 2> "$work/errors") || { cat "$work/errors"; exit 1; }
same "record with a value" "$(sed -n 1p <<<"$output")" \
  "value: error None, length 1, truth value True"
same "record with an empty value" "$(sed -n 2p <<<"$output")" \
  "empty: error None, length 0, truth value False"
same "tombstone" "$(sed -n 3p <<<"$output")" \
  "tombstone: error None, length 0, truth value False"
