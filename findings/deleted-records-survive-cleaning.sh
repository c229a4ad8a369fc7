#!/usr/bin/env bash
# DeleteRecords moves the log start offset of a partition, also into the middle of a record batch.
# One would guess that the log cleaner, when it rewrites that batch afterwards, drops the records
# below the log start offset. It keeps them: the cleaner of Apache Kafka looks only at the keys, so
# deleted records stay readable in the segment file for as long as no newer record has their key.
#
# Versions: Apache Kafka 4.4.0, confluent-kafka 2.16.1 (librdkafka 2.16.1)
# Source: KIP-107 (DeleteRecords); the tool kafka.tools.DumpLogSegments
# Product: a pass drops records below the log start offset (docs/internals/cleaner.md).
. "$(dirname "$0")/lib.bash"
kafka_jars 4.4.0
python_packages confluent-kafka==2.16.1
kafka_start log.cleaner.backoff.ms=500 log.retention.check.interval.ms=1000

cat > "$work/run.py" <<'PY'
import os, sys, time
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

bootstrap, data = sys.argv[1:]
admin = AdminClient({'bootstrap.servers': bootstrap})
admin.create_topics([NewTopic('erase', 1, 1, config={
    'cleanup.policy': 'compact,delete', 'min.cleanable.dirty.ratio': '0.01',
    'segment.ms': '1000', 'max.compaction.lag.ms': '1000'})])['erase'].result(60)

def produce(count, key):
    # One batch: flush ends it long before the linger time.
    producer = Producer({'bootstrap.servers': bootstrap, 'linger.ms': 60000})
    for i in range(count):
        producer.produce('erase', key=key(i), value=b'v')
    producer.flush()

produce(100, lambda i: b'person-%d' % i)
produce(1, lambda i: b'person-99')  # a pass has to remove record 99, so it rewrites the batch
of = TopicPartition('erase', 0, 90)
print('log start offset', admin.delete_records([of])[of].result(60).low_watermark)

def cleaned():
    try:
        lines = open(os.path.join(data, 'cleaner-offset-checkpoint')).read().splitlines()
    except FileNotFoundError:
        return 0
    return max([int(line.split()[2]) for line in lines[2:]], default=0)

for _ in range(600):
    if cleaned() > 100:
        break
    produce(1, lambda i: b'clock')  # a new record rolls the segment
    time.sleep(0.5)
PY
start=$("$python" "$work/run.py" "$bootstrap" "$data")
dump=$(kafka_run org.apache.kafka.tools.DumpLogSegments --print-data-log \
  --files "$data/erase-0/00000000000000000000.log" 2>/dev/null)
same "DeleteRecords" "$start" "log start offset 90"
same "records of the batch after its cleaning" \
  "$(grep -o 'baseOffset: 0 lastOffset: 99 count: [0-9]*' <<<"$dump")" \
  "baseOffset: 0 lastOffset: 99 count: 99"
same "the first deleted record" "$(grep -c 'offset: 0 .* key: person-0 payload: v' <<<"$dump")" 1
