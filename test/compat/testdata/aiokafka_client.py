"""The steps of program_test.go with aiokafka. Arguments: bootstrap, topic, milliseconds of idling."""
import asyncio
import json
import sys
import time

import aiokafka
from aiokafka import codec as codecs
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

bootstrap, topic, idle_ms = sys.argv[1], sys.argv[2], int(sys.argv[3])
BEGIN = 1_700_000_000_000


def say(step, **what):
    print(json.dumps({"step": step, **what}), flush=True)


def text(value):
    return None if value is None else value.decode()


async def administer():
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    say("list", topics=sorted(await admin.list_topics()))
    made = topic + "-made"
    await admin.create_topics([NewTopic(made, 2, 1, topic_configs={"cleanup.policy": "compact",
                                                                   "compression.type": "zstd"})])
    described = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, made)])
    entries = described[0].resources[0][4]
    say("describe", configs={entry[0]: entry[1] for entry in entries})
    await admin.delete_topics([made])
    say("deleted")
    await admin.close()


async def produce():
    """Sends the records of all codecs that are installed, and returns their number."""
    number = 0
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"]:
        if codec != "none" and not getattr(codecs, f"has_{codec}")():
            say("missing", codec=codec)  # aiokafka uses the module cramjam for most codecs
            continue
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap, enable_idempotence=True, linger_ms=500,
            compression_type=None if codec == "none" else codec)
        await producer.start()
        sent = []
        for key, value in ((f"{codec}-key", f"{codec} " * 100), (f"{codec}-key", None),
                           (None, f"{codec} without a key " * 100)):
            sent.append(await producer.send(
                topic, key=key and key.encode(), value=value and value.encode(), partition=0,
                timestamp_ms=BEGIN + number * 1000, headers=[("codec", codec.encode())]))
            number += 1
        await asyncio.wait_for(asyncio.gather(*sent), 30)
        await producer.stop()
    return number


async def read(consumer, source, count):
    for _ in range(count):
        m = await asyncio.wait_for(consumer.getone(), 30)
        say("record", source=source, offset=m.offset, timestamp=m.timestamp, key=text(m.key),
            value=text(m.value), headers={k: text(v) for k, v in m.headers})


async def consume(number):
    consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, fetch_max_wait_ms=500,
                                         enable_auto_commit=False)
    await consumer.start()
    place = aiokafka.TopicPartition(topic, 0)
    consumer.assign([place])
    await consumer.seek_to_beginning(place)
    await read(consumer, "beginning", number)
    at = (await consumer.offsets_for_times({place: BEGIN + 4 * 1000 - 500}))[place].offset
    consumer.seek(place, at)
    await read(consumer, "timestamp", number - at)
    await consumer.seek_to_end(place)
    say("idle")
    if await consumer.getmany(timeout_ms=idle_ms):
        raise SystemExit("end: a record came that nobody sent")
    say("idled")
    async with aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        await producer.send_and_wait(topic, key=b"last", value=b"while the consumer waits",
                                     partition=0, timestamp_ms=BEGIN + number * 1000)
    await read(consumer, "end", 1)
    await consumer.stop()


async def begin_transaction():
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap,
                                         transactional_id=topic + "-id")
    started = time.monotonic()
    error = ""
    try:
        await producer.start()
    except aiokafka.errors.KafkaError as e:
        error = repr(e)
    say("transaction", seconds=time.monotonic() - started, error=error)
    await producer.stop()


async def main():
    say("client", version=f"aiokafka {aiokafka.__version__}")
    await administer()
    await consume(await produce())
    await begin_transaction()


asyncio.run(main())
