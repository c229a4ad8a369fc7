"""An entity store in Python.

The store keeps entities in a compacted topic and serves them over HTTP on loopback. Its state is
what the topic contains: a write is a record, a deletion is a tombstone, and a start reads the topic
up to its end.
"""

import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import unquote

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

BEGINNING = -2


class Store:
    """The state of the service: what the topic contained when it was last read."""

    def __init__(self, bootstrap, topic):
        self.topic = topic
        self.entities = {}
        self.producer = Producer({
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            # Java and franz-go send a record to the partition of its key's murmur2 hash; librdkafka
            # uses CRC-32 by default. Then an entity would be in two partitions, without an order
            # between its records, and compaction would keep both.
            "partitioner": "murmur2_random",
        })
        self.consumer = Consumer({
            "bootstrap.servers": bootstrap,
            "group.id": "unused",  # required by the constructor; the store joins no group
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
        })
        known = self.consumer.list_topics(topic, timeout=60).topics[topic]
        if known.error:
            raise KafkaException(known.error)
        self.partitions = sorted(known.partitions)
        self.consumer.assign([TopicPartition(topic, p, BEGINNING) for p in self.partitions])

    def catch_up(self):
        """Read the topic up to its present end. A start and a read of the state are the same."""
        ends = {}
        for p in self.partitions:
            ends[p] = self.consumer.get_watermark_offsets(
                TopicPartition(self.topic, p), timeout=60)
        while any(self.position(p, low) < high for p, (low, high) in ends.items()):
            for message in self.consumer.consume(1000, timeout=0.1):
                self.apply(message)

    def position(self, partition, low):
        """Return the offset of the next record to read."""
        offset = self.consumer.position([TopicPartition(self.topic, partition)])[0].offset
        return offset if offset >= 0 else low

    def apply(self, message):
        if message.error():
            raise KafkaException(message.error())
        if message.value() is None:
            self.entities.pop(message.key().decode(), None)
        else:
            self.entities[message.key().decode()] = message.value()

    def write(self, key, value):
        """Send a record and return when all in-sync replicas have it. None is a tombstone.

        The state changes when catch_up reads the record, never here: the topic decides on the order
        of the writes of several services.
        """
        failed = []
        self.producer.produce(self.topic, value, key,
                              on_delivery=lambda error, _: failed.append(error))
        self.producer.flush()
        if failed[0]:
            raise KafkaException(failed[0])


class Handler(BaseHTTPRequestHandler):
    """The HTTP requests, one at a time."""

    store = None

    def key(self):
        return unquote(self.path[len("/entities"):]).lstrip("/")

    def do_GET(self):
        self.store.catch_up()
        entities = self.store.entities
        if not self.key():
            lines = (key.encode() + b" " + entities[key] + b"\n" for key in sorted(entities))
            self.respond(200, b"".join(lines))
        elif self.key() in entities:
            self.respond(200, entities[self.key()])
        else:
            self.respond(404)

    def do_PUT(self):
        value = self.rfile.read(int(self.headers["Content-Length"] or 0))
        if not value:
            self.respond(400, b"an entity needs a value\n")
            return
        self.store.write(self.key(), value)
        self.respond(204)

    def do_DELETE(self):
        self.store.write(self.key(), None)
        self.respond(204)

    def respond(self, status, body=b""):
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


class Server(HTTPServer):
    """The HTTP server, which also reads the topic while no request does."""

    def service_actions(self):
        """Follow the topic; serve_forever calls this between requests.

        A store that has read a record must read its tombstone before the tombstone's retention
        ends, or it keeps the entity forever.
        """
        try:
            Handler.store.catch_up()
        except KafkaException as e:
            print(f"failed to follow the topic: {e}", file=sys.stderr)


def main(bootstrap, topic):
    store = Store(bootstrap, topic)
    store.catch_up()
    Handler.store = store
    server = Server(("127.0.0.1", 0), Handler)
    print(f"ready http://127.0.0.1:{server.server_port} restored={len(store.entities)}",
          flush=True)
    server.serve_forever(poll_interval=1)


main(*sys.argv[1:])
