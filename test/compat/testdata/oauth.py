"""Authenticates by OAUTHBEARER with a token and lists the topics; prints the outcome as JSON.

    oauth.py LIBRARY BOOTSTRAP CA TOKEN

LIBRARY is confluent (the callback of librdkafka), oidc (librdkafka itself requests the token from
the URL TOKEN), or kafka_python.
"""
import json
import logging
import os
import sys
import time


def confluent(bootstrap, ca, token):
    # The lifetime is what the client assumes; librdkafka does not send an expired token.
    return librdkafka(bootstrap, ca, {"oauth_cb": lambda _: (token, time.time() + 3600)})


def oidc(bootstrap, ca, url):
    return librdkafka(bootstrap, ca, {
        "sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.token.endpoint.url": url,
        "sasl.oauthbearer.client.id": "compat", "sasl.oauthbearer.client.secret": "secret"})


def librdkafka(bootstrap, ca, config):
    import confluent_kafka
    from confluent_kafka.admin import AdminClient

    library, (librdkafka, _) = confluent_kafka.__version__, confluent_kafka.libversion()
    seen["version"] = f"confluent-kafka {library}, librdkafka {librdkafka}"
    errors = []
    client = AdminClient({
        "bootstrap.servers": bootstrap, "security.protocol": "SASL_SSL", "ssl.ca.location": ca,
        "sasl.mechanism": "OAUTHBEARER", "log_level": 0, "error_cb": errors.append, **config})
    end = time.monotonic() + 60
    while time.monotonic() < end:
        client.poll(0.1)  # calls oauth_cb and error_cb
        failed = [e for e in errors if e.code() == confluent_kafka.KafkaError._AUTHENTICATION]
        if failed:
            return f"refused: {failed[0].str()}"
        try:
            client.list_topics(timeout=1)
            return "ok"
        except confluent_kafka.KafkaException:
            continue
    return f"no answer: {errors}"


def kafka_python(bootstrap, ca, token):
    import kafka
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Provider(AbstractTokenProvider):
        def token(self):
            return token

    class Failures(logging.Handler):
        # The client logs a refusal, and tries again until bootstrap_timeout_ms.
        def emit(self, record):
            messages.append(record.getMessage())
            if "SaslAuthenticationFailed" in record.getMessage():
                seen["outcome"] = f"refused: {record.getMessage()}"
                print(json.dumps(seen), flush=True)
                os._exit(0)

    messages = []
    seen["version"] = f"kafka-python {kafka.__version__}"
    logging.getLogger("kafka").addHandler(Failures())
    try:
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap, security_protocol="SASL_SSL", ssl_cafile=ca,
            sasl_mechanism="OAUTHBEARER", sasl_oauth_token_provider=Provider(),
            bootstrap_timeout_ms=60000)
        consumer.topics()
        return "ok"
    except kafka.errors.KafkaError as failure:
        return f"no answer: {type(failure).__name__}: {failure}, after: {messages[-10:]}"


seen = {}
library = {"confluent": confluent, "oidc": oidc, "kafka_python": kafka_python}[sys.argv[1]]
seen["outcome"] = library(*sys.argv[2:])
print(json.dumps(seen))
