# Makes the topics of the compatibility vectors: python3 produce.py host:port
import sys, time
from confluent_kafka import Producer
bootstrap = sys.argv[1]
start = 1_700_000_000_000  # ms: the vectors do not depend on when they were made
codecs = ["none", "gzip", "snappy", "lz4", "zstd"]

def producer(codec, **more):
    return Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 5000, **more})

# vectors: one batch a codec and round, timestamps not in order; one record much later rolls the segment (segment.ms=1000).
at = start
for round in range(6):
    for i, codec in enumerate(codecs):
        p = producer(codec, **{"enable.idempotence": round % 2 == 1})
        for n in range(1 + (round + i) % 3):
            at += 7 if (round + i + n) % 4 else -11
            value = None if n == 2 else ("value %d of round %d " % (n, round)) * (1 + i)
            p.produce("vectors", key="key-%d" % (i * 3 + n), value=value, timestamp=at, headers=[("round", str(round)), ("none", None)])
        assert p.flush(30) == 0
# A transaction that is committed, and one that is aborted: control batches.
for name, end in (("commit", Producer.commit_transaction), ("abort", Producer.abort_transaction)):
    p = producer("zstd", **{"transactional.id": "vectors-" + name})
    p.init_transactions(30)
    p.begin_transaction()
    p.produce("vectors", key="txn", value=name, timestamp=start + 500)
    p.flush(30)
    end(p, 30)
p = producer("none")
p.produce("vectors", key="last", value="in the next segment", timestamp=int(time.time() * 1000) + 3600_000 - 60_000)
assert p.flush(30) == 0

# compacted: two segments of the same keys in batches of four, a tombstone, and a third to close the second.
for round in range(3):
    for i, codec in enumerate(codecs):
        p = producer(codec)
        for n in range(4):
            if round == 2 and (i or n):
                continue
            value = None if (round, i, n) == (1, 0, 0) else "round %d " % round * 5
            key = "key-%d" % (i * 4 + n) if n or round == 0 else "only-%d-%d" % (round, i)
            p.produce("compacted", key=key, value=value, timestamp=start + round * 10_000 + i * 10 + n)
        assert p.flush(30) == 0
