"""The steps of program_test.go with confluent-kafka (librdkafka). Arguments: bootstrap, topic, milliseconds of idling."""
import json
import sys
import time

import confluent_kafka as ck
from confluent_kafka import admin

bootstrap, topic, idle_ms = sys.argv[1], sys.argv[2], int(sys.argv[3])
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
BEGIN = 1_700_000_000_000


def say(step, **what):
    print(json.dumps({"step": step, **what}), flush=True)


def text(value):
    return None if value is None else value.decode()


def record(source, message):
    if message.error():
        raise SystemExit(f"{source}: {message.error()}")
    say("record", source=source, offset=message.offset(), timestamp=message.timestamp()[1], key=text(message.key()),
        value=text(message.value()), headers={k: text(v) for k, v in message.headers() or []})


def wait(futures):
    return {name: future.result(30) for name, future in futures.items()}


say("client", version=f"confluent-kafka {ck.__version__}, librdkafka {ck.libversion()[0]}")
adm = admin.AdminClient({"bootstrap.servers": bootstrap})
say("list", topics=sorted(adm.list_topics(timeout=30).topics))
made = topic + "-made"
wait(adm.create_topics([admin.NewTopic(made, 2, 1, config={"cleanup.policy": "compact", "compression.type": "zstd"})]))
resource = admin.ConfigResource(admin.ConfigResource.Type.TOPIC, made)
configs = adm.describe_configs([resource])[resource].result(30)
say("describe", configs={name: entry.value for name, entry in configs.items()})
wait(adm.delete_topics([made]))
say("deleted")

number = 0
for codec in CODECS:
    producer = ck.Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "compression.type": codec, "linger.ms": 500,
                            "max.in.flight.requests.per.connection": 5})
    failed = []
    # A value that every codec compresses: librdkafka sends batches that would grow uncompressed.
    for key, value in ((f"{codec}-key", f"{codec} " * 100), (f"{codec}-key", None), (None, f"{codec} without a key " * 100)):
        producer.produce(topic, key=key, value=value, partition=0, timestamp=BEGIN + number * 1000, headers=[("codec", codec)],
                         on_delivery=lambda error, _: failed.append(error) if error else None)
        number += 1
    if producer.flush(30) or failed:
        raise SystemExit(f"produce with {codec}: {failed or 'not sent'}")

# librdkafka requires group.id, also without a group.
consumer = ck.Consumer({"bootstrap.servers": bootstrap, "group.id": "not-used", "enable.auto.commit": False, "fetch.wait.max.ms": 500,
                        "error_cb": lambda error: say("error", error=str(error))})


def read(source, start, count):
    consumer.assign([ck.TopicPartition(topic, 0, start)])
    while count:
        message = consumer.poll(30)
        if message is None:
            raise SystemExit(f"{source}: {count} records did not come")
        record(source, message)
        count -= 1


read("beginning", ck.OFFSET_BEGINNING, number)
at = consumer.offsets_for_times([ck.TopicPartition(topic, 0, BEGIN + 4 * 1000 - 500)], timeout=30)[0].offset
read("timestamp", at, number - at)

consumer.assign([ck.TopicPartition(topic, 0, ck.OFFSET_END)])
say("idle")
if consumer.poll(idle_ms / 1000) is not None:
    raise SystemExit("end: a record came that nobody sent")
say("idled")
producer.produce(topic, key="last", value="while the consumer waits", partition=0, timestamp=BEGIN + number * 1000)
producer.flush(30)
record("end", consumer.poll(30))
consumer.close()

transactional = ck.Producer({"bootstrap.servers": bootstrap, "transactional.id": topic + "-id"})
started, refusal = time.monotonic(), ""
try:
    transactional.init_transactions(60)
except ck.KafkaException as error:
    refusal = str(error)
say("transaction", seconds=time.monotonic() - started, error=refusal)
