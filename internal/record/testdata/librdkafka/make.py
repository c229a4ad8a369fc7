#!/usr/bin/env python3
"""Makes the batches that librdkafka_test.go reads: what librdkafka's producer sends, in each codec.

pip install confluent-kafka==2.16.1 (librdkafka 2.16.0); then, in this folder: python3 make.py PATH/TO/heartwood

It produces to a broker of `heartwood dev` and takes the batches out of its log. The topics keep the producer's compression, so all but base
offset and leader epoch, which lie outside the checksum, is as the client sent it.
"""
import glob, signal, subprocess, sys, tempfile

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

NOW = 1_700_000_000_000
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def records():
    """The records of each vector: key, value, timestamp, headers. librdkafka_test.go makes the same."""
    ticket = lambda i: b'{"id":%d,"subject":"ticket %d","status":"open"}' % (i, i * 31 % 17)
    yield "tickets", {}, [(b"ticket-%d" % i, ticket(i), NOW + 7 * i, None) for i in range(30)]
    # More than one block of each codec.
    yield "large", {}, [(b"k%d" % i, b"x" * 500, NOW + i, None) for i in range(300)]
    headers = [("b", b"v"), ("a", b""), ("b", None), ("\u00fc\u4e16", b"v")]
    yield "odd", {}, [(None, b"v", NOW, None), (b"k", None, NOW - 100_000, headers), (b"", b"", NOW + 5, headers), (None, None, NOW, None)]
    yield "idempotent", {"enable.idempotence": True}, [(b"k%d" % i, ticket(i), NOW, None) for i in range(3)]


def produce(address, topic, codec, options, batch):
    # One batch: it waits until all records are there.
    producer = Producer({"bootstrap.servers": address, "compression.type": codec, "linger.ms": 60_000, **options})
    for key, value, timestamp, headers in batch:
        producer.produce(topic, key=key, value=value, timestamp=timestamp, headers=headers)
    if producer.flush(30) != 0:
        sys.exit("%s was not produced" % topic)


def main(binary):
    with tempfile.TemporaryDirectory() as folder:
        address = "127.0.0.1:19392"
        broker = subprocess.Popen([binary, "dev", "--data-dir", folder, "--listen", address, "--http", "127.0.0.1:19393"], stdout=subprocess.PIPE, text=True)
        try:
            for line in broker.stdout:
                if line.startswith("ready"):
                    break
            topics = {"%s-%s" % (name, codec): (codec, options, batch) for name, options, batch in records() for codec in CODECS
                      if (name, codec) != ("large", "none")}  # 150 KB of x
            admin = AdminClient({"bootstrap.servers": address})  # while it lives, what it was asked goes on
            for made in admin.create_topics([NewTopic(t, 1, 1) for t in topics]).values():
                made.result()
            for topic, (codec, options, batch) in topics.items():
                produce(address, topic, codec, options, batch)
        finally:
            broker.send_signal(signal.SIGINT)
            broker.wait()
        for topic in topics:
            (log,) = [path for path in glob.glob(folder + "/**/*.log", recursive=True) if topic + "-0" in path]
            with open(log, "rb") as source, open(topic + ".bin", "wb") as out:
                out.write(source.read())


main(*sys.argv[1:])
