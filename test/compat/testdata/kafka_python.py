"""The steps of program_test.go with kafka-python. Arguments: bootstrap, topic, milliseconds of idling."""
import json
import sys
import time

import kafka
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewTopic
from kafka import codec as codecs

bootstrap, topic, idle_ms = sys.argv[1], sys.argv[2], int(sys.argv[3])
BEGIN = 1_700_000_000_000


def say(step, **what):
    print(json.dumps({"step": step, **what}), flush=True)


def text(value):
    return None if value is None else value.decode()


def record(source, message):
    say("record", source=source, offset=message.offset, timestamp=message.timestamp, key=text(message.key), value=text(message.value),
        headers={k: text(v) for k, v in message.headers or []})


say("client", version=f"kafka-python {kafka.__version__}")
admin = KafkaAdminClient(bootstrap_servers=bootstrap)
say("list", topics=sorted(admin.list_topics()))
made = topic + "-made"
admin.create_topics([NewTopic(name=made, num_partitions=2, replication_factor=1,
                              topic_configs={"cleanup.policy": "compact", "compression.type": "zstd"})])
described = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, made)], config_filter="all")
say("describe", configs={name: entry["value"] for name, entry in described["topic"][made].items()})
admin.delete_topics([made])
say("deleted")

number = 0
for codec in ["none", "gzip", "snappy", "lz4", "zstd"]:
    if codec != "none" and not getattr(codecs, f"has_{codec}")():
        say("missing", codec=codec)  # kafka-python uses modules for codecs that may not be installed
        continue
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True, acks="all", linger_ms=500,
                                   max_in_flight_requests_per_connection=5, compression_type=None if codec == "none" else codec)
    sent = []
    for key, value in ((f"{codec}-key", f"{codec} " * 100), (f"{codec}-key", None), (None, f"{codec} without a key " * 100)):
        sent.append(producer.send(topic, key=key and key.encode(), value=value and value.encode(), partition=0,
                                  timestamp_ms=BEGIN + number * 1000, headers=[("codec", codec.encode())]))
        number += 1
    for future in sent:
        future.get(30)
    producer.close()

consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, fetch_max_wait_ms=500, enable_auto_commit=False)
place = kafka.TopicPartition(topic, 0)
consumer.assign([place])


def read(source, count):
    while count:
        came = consumer.poll(timeout_ms=30_000, max_records=count).get(place)
        if not came:
            raise SystemExit(f"{source}: {count} records did not come")
        for message in came:
            record(source, message)
        count -= len(came)


consumer.seek_to_beginning(place)
read("beginning", number)
at = consumer.offsets_for_times({place: BEGIN + 4 * 1000 - 500})[place].offset
consumer.seek(place, at)
read("timestamp", number - at)

consumer.seek_to_end(place)
consumer.position(place)
say("idle")
if consumer.poll(timeout_ms=idle_ms):
    raise SystemExit("end: a record came that nobody sent")
say("idled")
producer = kafka.KafkaProducer(bootstrap_servers=bootstrap)
producer.send(topic, key=b"last", value=b"while the consumer waits", partition=0, timestamp_ms=BEGIN + number * 1000).get(30)
read("end", 1)
consumer.close()

started, refusal = time.monotonic(), ""
producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic + "-id")
try:
    producer.init_transactions()
except kafka.errors.KafkaError as error:
    refusal = repr(error)
say("transaction", seconds=time.monotonic() - started, error=refusal)
producer.close(timeout=5)
