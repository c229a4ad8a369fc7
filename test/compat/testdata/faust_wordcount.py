"""The word count of wordcount_test.go with Faust. Arguments: bootstrap, state directory."""
import json
import sys
from importlib.metadata import version

import faust

bootstrap, state = sys.argv[1:3]
app = faust.App("wordcount", broker="kafka://" + bootstrap, datadir=state, store="memory://",
                web_enabled=False, topic_partitions=2, topic_replication_factor=1,
                broker_commit_interval=0.5, consumer_auto_offset_reset="earliest")
lines = app.topic("lines", key_type=str, value_type=str, key_serializer="raw",
                  value_serializer="raw")
words = app.topic("wordcount-words", key_type=str, value_type=str, key_serializer="raw",
                  value_serializer="raw", partitions=2, internal=True)
counts = app.topic("counts", key_type=str, value_type=str, key_serializer="raw",
                   value_serializer="raw")
table = app.Table("totals", default=int, partitions=2)


@app.agent(lines)
async def split(stream):
    async for line in stream:
        for word in line.lower().split(" "):
            await (await words.send(key=word, value=word))  # waits until it is stored


@app.agent(words)
async def count(stream):
    async for word in stream:
        table[word] += 1
        await (await counts.send(key=word, value=str(table[word])))


print(json.dumps({"step": "client", "version": "faust-streaming " + version("faust-streaming")}),
      flush=True)
worker = faust.Worker(app, loglevel="INFO")
worker.execute_from_commandline()
