"""The word count of wordcount_test.go with Quix Streams. Arguments: bootstrap, state directory."""
import json
import sys
from importlib.metadata import version

from quixstreams import Application

bootstrap, state = sys.argv[1:3]
app = Application(broker_address=bootstrap, consumer_group="wordcount", state_dir=state,
                  auto_offset_reset="earliest", commit_interval=0.5, loglevel="INFO")
lines = app.topic("lines", key_deserializer="str", value_deserializer="str")
counts = app.topic("counts", key_serializer="str", value_serializer="str")


def count(word, state):
    n = state.get("n", 0) + 1
    state.set("n", n)
    return str(n)


stream = app.dataframe(lines).apply(lambda line: line.lower().split(" "), expand=True)
stream = stream.group_by(lambda word: word, name="word", key_serializer="str",
                         key_deserializer="str")
stream.apply(count, stateful=True).to_topic(counts)


print(json.dumps({"step": "client", "version": "quixstreams " + version("quixstreams")}),
      flush=True)
app.run()
