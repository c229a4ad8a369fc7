#!/usr/bin/env bash
# min.cleanable.dirty.ratio is a number from 0 to 1, and Kafka refuses 1.5 and -1. One would guess
# that it refuses NaN too. It accepts, stores and describes it: both comparisons of its range check
# are false. The cleaner then compares the dirty ratio of the log with NaN, which is false as well,
# so the topic is never compacted, unless max.compaction.lag.ms demands it. A tool that computes the
# ratio, and divides zero by zero, turns compaction off without an error.
#
# Versions: Apache Kafka 4.4.0, confluent-kafka 2.16.1 (librdkafka 2.16.1)
# Source: topic configuration min.cleanable.dirty.ratio; the file cleaner-offset-checkpoint
# Product: NaN is refused by name (internal/topicconfig).
. "$(dirname "$0")/lib.bash"
kafka_jars 4.4.0
python_packages confluent-kafka==2.16.1
kafka_start log.cleaner.backoff.ms=500

cat > "$work/run.py" <<'PY'
import os, sys, time
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

bootstrap, data = sys.argv[1:]
admin = AdminClient({'bootstrap.servers': bootstrap})

def create(name, ratio):
    topic = NewTopic(name, 1, 1, config={
        'cleanup.policy': 'compact', 'min.cleanable.dirty.ratio': ratio, 'segment.ms': '1000'})
    try:
        admin.create_topics([topic])[name].result(60)
        return 'created'
    except KafkaException as err:
        return err.args[0].name()

print(create('half', '0.5'))
print(create('nan', 'NaN'))
print(create('large', '1.5'))
resource = ConfigResource(ResourceType.TOPIC, 'nan')
print(admin.describe_configs([resource])[resource].result(60)['min.cleanable.dirty.ratio'].value)

def cleaned():
    try:
        lines = open(os.path.join(data, 'cleaner-offset-checkpoint')).read().splitlines()
    except FileNotFoundError:
        return {}
    return {name: int(offset) for name, _, offset in (line.split() for line in lines[2:])}

# Both topics get the same records, until a third pass over one of them has ended.
producer = Producer({'bootstrap.servers': bootstrap})
offsets = set()
for _ in range(600):
    for topic in 'half', 'nan':
        for i in range(10):
            producer.produce(topic, key=b'%d' % (i % 2), value=b'v')
    producer.flush()
    offsets.add(cleaned().get('half', 0))
    if len(offsets - {0}) > 2:
        break
    time.sleep(0.5)
print(len(offsets - {0}) > 2, cleaned().get('nan', 0))
PY
output=$("$python" "$work/run.py" "$bootstrap" "$data")
same "ratio 0.5" "$(sed -n 1p <<<"$output")" created
same "ratio NaN" "$(sed -n 2p <<<"$output")" created
same "ratio 1.5" "$(sed -n 3p <<<"$output")" INVALID_CONFIG
same "the ratio that Kafka describes" "$(sed -n 4p <<<"$output")" NaN
same "three passes over the topic with 0.5, first dirty offset of the topic with NaN" \
  "$(sed -n 5p <<<"$output")" "True 0"
