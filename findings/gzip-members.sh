#!/usr/bin/env bash
# A gzip stream may consist of several members (RFC 1952, section 2.2). A record batch whose records
# are compressed in two members is stored by Apache Kafka as it is, and Kafka's own consumer and
# kafka-python read all ten records of it. librdkafka reads the records of the first member and
# passes over the others: no error, and the position moves behind the batch.
#
# Versions: Apache Kafka 4.4.0, confluent-kafka 2.16.1 (librdkafka 2.16.1), kafka-python 3.0.12
# Source: RFC 1952; KIP-98 (record batch format)
# Product: rebuilds such a batch at produce (docs/internals/protocol.md).
. "$(dirname "$0")/lib.bash"
kafka_jars 4.4.0
python_packages confluent-kafka==2.16.1 kafka-python==3.0.12
kafka_start

cat > "$work/run.py" <<'PY'
import gzip, socket, struct, sys, time
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, TopicPartition as KTP

bootstrap = sys.argv[1]
admin = AdminClient({'bootstrap.servers': bootstrap})
admin.create_topics([NewTopic('members', 1, 1)])['members'].result(60)

def varint(n):
    n, out = (n << 1) ^ (n >> 63), b''
    while n > 0x7f:
        out += bytes([n & 0x7f | 0x80]); n >>= 7
    return out + bytes([n])

def record(i):
    body = b'\0' + varint(0) + varint(i) + varint(-1) + varint(2) + b'v%d' % i + varint(0)
    return varint(len(body)) + body

def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x82f63b78 * (crc & 1)
    return crc ^ 0xffffffff

def batch(compressed, count):
    now = int(time.time() * 1000)
    tail = struct.pack('>hiqqqhii', 1, count - 1, now, now, -1, -1, -1, count) + compressed
    head = struct.pack('>ib', -1, 2) + struct.pack('>I', crc32c(tail))
    return struct.pack('>qi', 0, len(head) + len(tail)) + head + tail

records = [record(i) for i in range(10)]
two = gzip.compress(b''.join(records[:4])) + gzip.compress(b''.join(records[4:]))
assert gzip.decompress(two) == b''.join(records)
data = batch(two, 10)
def string(s): return struct.pack('>h', len(s)) + s
body = struct.pack('>hhii', -1, -1, 30000, 1) + string(b'members')
body += struct.pack('>iii', 1, 0, len(data)) + data
request = struct.pack('>hhi', 0, 3, 1) + string(b'finding') + body
host, port = bootstrap.split(':')
with socket.create_connection((host, int(port))) as s:
    s.sendall(struct.pack('>i', len(request)) + request)
    size = struct.unpack('>i', s.recv(4))[0]
    answer = b''
    while len(answer) < size: answer += s.recv(size - len(answer))
error = struct.unpack('>h', answer[4 + 4 + 2 + 7 + 4 + 4:][:2])[0]
print('produce error', error)

c = Consumer({'bootstrap.servers': bootstrap, 'group.id': 'g', 'enable.partition.eof': True,
              'auto.offset.reset': 'error'})
c.assign([TopicPartition('members', 0, 0)])
seen, faults = [], []
while True:
    m = c.poll(60)
    if m is None: faults.append('timeout'); break
    if m.error():
        if m.error().name() != '_PARTITION_EOF': faults.append(m.error().name())
        end = m.offset()
        break
    seen.append(m.offset())
print('librdkafka', len(seen), 'records, end', end, 'errors', faults)
k = KafkaConsumer(bootstrap_servers=bootstrap, consumer_timeout_ms=60000)
k.assign([KTP('members', 0)])
k.seek_to_beginning()
print('kafka-python', len([next(k) for _ in range(10)]), 'records')
PY
output=$("$python" "$work/run.py" "$bootstrap" 2>"$work/errors") || { cat "$work/errors"; exit 1; }
java_count=$(kafka_run org.apache.kafka.tools.consumer.ConsoleConsumer \
  --bootstrap-server "$bootstrap" --topic members --from-beginning --max-messages 10 \
  --timeout-ms 60000 2>/dev/null | wc -l)
same "produce" "$(sed -n 1p <<<"$output")" "produce error 0"
same "librdkafka" "$(sed -n 2p <<<"$output")" "librdkafka 4 records, end 10 errors []"
same "kafka-python" "$(sed -n 3p <<<"$output")" "kafka-python 10 records"
same "Kafka's consumer" "$java_count" 10
