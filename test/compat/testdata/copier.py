"""Copies a topic to another one, exactly once, until it receives SIGTERM.

Arguments: library, bootstrap, transactional id, group, input, output. After an error that ends the
producer the program exits with code 1, and its caller starts it again.
"""
import faulthandler
import json
import signal
import sys

running = True


def stop(*_):
    global running
    running = False


def confluent(bootstrap, transactional_id, group, source, target):
    import confluent_kafka as ck

    version = f"confluent-kafka {ck.__version__}, librdkafka {ck.libversion()[0]}"
    print(json.dumps({"Step": "client", "Version": version}), flush=True)
    consumer = ck.Consumer({
        "bootstrap.servers": bootstrap, "group.id": group, "isolation.level": "read_committed",
        "enable.auto.commit": False, "auto.offset.reset": "earliest", "session.timeout.ms": 10000})
    consumer.subscribe([source])
    producer = ck.Producer({
        "bootstrap.servers": bootstrap, "transactional.id": transactional_id,
        "transaction.timeout.ms": 20000})
    producer.init_transactions(60)

    def retried(step, *args):
        while True:
            try:
                return step(*args)
            except ck.KafkaException as failure:
                if not failure.args[0].retriable():
                    raise

    def rewind():
        retried(producer.abort_transaction)
        for at in consumer.committed(consumer.assignment(), 30):
            consumer.seek(ck.TopicPartition(at.topic, at.partition, at.offset
                                            if at.offset >= 0 else ck.OFFSET_BEGINNING))

    while running:
        records = [r for r in consumer.consume(10, 0.5) if r.error() is None]
        if not records:
            continue
        producer.begin_transaction()
        try:
            for r in records:
                producer.produce(target, r.value(), r.key())
            retried(producer.send_offsets_to_transaction, consumer.position(consumer.assignment()),
                    consumer.consumer_group_metadata())
            retried(producer.commit_transaction)
        except ck.KafkaException as failure:
            print(failure, flush=True)
            if not failure.args[0].txn_requires_abort():
                raise
            rewind()


def kafka_python(bootstrap, transactional_id, group, source, target):
    import kafka
    from kafka.errors import KafkaError
    from kafka.structs import OffsetAndMetadata

    print(json.dumps({"Step": "client", "Version": f"kafka-python {kafka.__version__}"}), flush=True)
    consumer = kafka.KafkaConsumer(
        source, bootstrap_servers=bootstrap.split(","), group_id=group,
        isolation_level="read_committed", enable_auto_commit=False, auto_offset_reset="earliest",
        session_timeout_ms=10000)
    producer = kafka.KafkaProducer(
        bootstrap_servers=bootstrap.split(","), transactional_id=transactional_id,
        transaction_timeout_ms=20000)
    producer.init_transactions()
    while running:
        # After the connection to its coordinator broke, kafka-python 3.0.12 sometimes waits forever in
        # commit_transaction, without a request in flight. Then the program exits.
        faulthandler.dump_traceback_later(30, exit=True)
        batches = consumer.poll(500, max_records=10)
        if not batches:
            continue
        try:
            producer.begin_transaction()
            sent = [producer.send(target, r.value, r.key) for rs in batches.values() for r in rs]
            offsets = {tp: OffsetAndMetadata(rs[-1].offset + 1, "", -1)
                       for tp, rs in batches.items()}
            producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
            for future in sent:
                future.get(60)
            producer.commit_transaction()
        except KafkaError as failure:
            print(repr(failure), flush=True)
            producer.abort_transaction()
            for tp in consumer.assignment():
                at = consumer.committed(tp)
                if at is None:
                    consumer.seek_to_beginning(tp)
                else:
                    consumer.seek(tp, at)
    faulthandler.cancel_dump_traceback_later()


signal.signal(signal.SIGTERM, stop)
{"confluent": confluent, "kafka_python": kafka_python}[sys.argv[1]](*sys.argv[2:])
