#!/usr/bin/env bash
# A broker that refuses a client's credentials sends a reply with the reason, and closes the
# connection. One would guess that a client reads the reply. kafka-python reads until the socket has
# no more bytes; if the end of the connection is already there, it drops the bytes that it has read
# before the end, and reports "socket disconnected". It then connects again until its timeout, as if
# the network had failed: a wrong password looks like a broker that is down. Whether it happens
# depends on microseconds. The server below sends reply and FIN in one TCP segment, or waits until
# the client closes the connection.
#
# Versions: kafka-python 3.0.12
# Source: Kafka protocol, SaslAuthenticate (KIP-152)
# Product: after a failed authentication, a broker lets the client close the connection first.
. "$(dirname "$0")/lib.bash"
python_packages kafka-python==3.0.12

cat > "$work/run.py" <<'PY'
import logging, socket, struct, sys, threading
import kafka

together = sys.argv[1] == 'together'

def string(text):
    return struct.pack('>h', len(text)) + text

def reply(key, version):
    if key == 18:  # ApiVersions, always version 0: the four APIs that the client needs
        code = 35 if version else 0
        apis = [(3, 0, 1), (17, 1, 1), (18, 0, 0), (36, 0, 0)]
        return struct.pack('>hi', code, len(apis)) + b''.join(struct.pack('>hhh', *a) for a in apis)
    if key == 17:  # SaslHandshake 1
        return struct.pack('>hi', 0, 1) + string(b'PLAIN')
    return struct.pack('>h', 58) + string(b'wrong password') + struct.pack('>i', 0)

def read(conn, size):
    data = b''
    while len(data) < size:
        part = conn.recv(size - len(data))
        if not part:
            raise EOFError
        data += part
    return data

def serve(conn):
    conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        while True:
            frame = read(conn, struct.unpack('>i', read(conn, 4))[0])
            key, version, correlation = struct.unpack('>hhi', frame[:8])
            body = struct.pack('>i', correlation) + reply(key, version)
            if key == 36 and together:
                conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
            conn.sendall(struct.pack('>i', len(body)) + body)
            if key == 36 and together:
                conn.shutdown(socket.SHUT_WR)
    except (EOFError, ConnectionError):
        conn.close()

def accept(listener):
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

listener = socket.create_server(('127.0.0.1', 0))
threading.Thread(target=accept, args=(listener,), daemon=True).start()

class Messages(logging.Handler):
    def emit(self, record):
        for what in 'SaslAuthenticationFailed', 'socket disconnected':
            if what in record.getMessage():
                seen.add(what)

seen = set()
logging.getLogger('kafka').addHandler(Messages())
try:
    kafka.KafkaConsumer(
        bootstrap_servers='127.0.0.1:%d' % listener.getsockname()[1], bootstrap_timeout_ms=3000,
        security_protocol='SASL_PLAINTEXT', sasl_mechanism='PLAIN', sasl_plain_username='a',
        sasl_plain_password='b')
except kafka.errors.KafkaError:
    pass
print(', '.join(sorted(seen)))
PY
same "the client closes first" "$("$python" "$work/run.py" first)" "SaslAuthenticationFailed"
same "reply and end together" "$("$python" "$work/run.py" together)" "socket disconnected"
