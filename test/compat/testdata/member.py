"""A member of a group of the consumer protocol, as consumers_test.go has it, by confluent-kafka, which is librdkafka. Arguments: bootstrap, group,
instance ("": none), topic, or an expression that begins with ^. It says what it is assigned and what it reads, commits that, and leaves when
its standard input ends."""
import json
import sys
import threading

import confluent_kafka as ck

bootstrap, group, instance, topic = sys.argv[1:5]
owned = set()
stop = threading.Event()


def say(step, **what):
    print(json.dumps({"step": step, **what}), flush=True)


def names(partitions):
    return {f"{p.topic}-{p.partition}" for p in partitions}


def assigned(consumer, partitions):
    consumer.incremental_assign(partitions)
    owned.update(names(partitions))
    say("assigned", topics=sorted(owned))


def revoked(consumer, partitions):
    consumer.incremental_unassign(partitions)
    owned.difference_update(names(partitions))
    say("assigned", topics=sorted(owned))


def wait():
    sys.stdin.read()
    stop.set()


threading.Thread(target=wait, daemon=True).start()
say("client", version=f"confluent-kafka {ck.version()}, librdkafka {ck.libversion()[0]}")
conf = {"bootstrap.servers": bootstrap, "group.protocol": "consumer", "group.id": group, "auto.offset.reset": "earliest",
        "enable.auto.commit": False, "topic.metadata.refresh.interval.ms": 1000}
if instance:
    conf["group.instance.id"] = instance
consumer = ck.Consumer(conf)
consumer.subscribe([topic], on_assign=assigned, on_revoke=revoked, on_lost=revoked)
while not stop.is_set():
    message = consumer.poll(0.2)
    if message is None or message.error():
        continue
    say("record", source=f"{message.topic()}-{message.partition()}", offset=message.offset())
    try:
        consumer.commit(message, asynchronous=False)
    except ck.KafkaException as error:
        if not error.args[0].retriable() and error.args[0].name() not in ("STALE_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID", "_NO_OFFSET"):
            print(error, file=sys.stderr)
consumer.close()
