"""Starts a transactional producer of the named library and prints the error as a line of JSON."""
import json
import sys
import time


def confluent(bootstrap):
    import confluent_kafka

    library, (librdkafka, _) = confluent_kafka.__version__, confluent_kafka.libversion()
    seen["version"] = f"confluent-kafka {library}, librdkafka {librdkafka}"
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": "compat"})
    try:
        producer.init_transactions(60)
    except confluent_kafka.KafkaException as failure:
        error = failure.args[0]
        return f"{error.name()} {'fatal' if error.fatal() else 'not fatal'}: {error.str()}"


def kafka_python(bootstrap):
    import kafka

    seen["version"] = f"kafka-python {kafka.__version__}"
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, transactional_id="compat")
    try:
        producer.init_transactions()
    except kafka.errors.KafkaError as failure:
        return f"{type(failure).__name__}: {failure}"


seen = {}
begin = time.monotonic()
library = {"confluent": confluent, "kafka_python": kafka_python}[sys.argv[1]]
seen["error"] = library(sys.argv[2])
seen["seconds"] = time.monotonic() - begin
print(json.dumps(seen))
