package local

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"heartwood.dev/heartwood/internal/metadata/partitionset"
)

// example is a complete file.
const example = `{
  "version": 3,
  "clusterId": "Vx0hXnY7Q0W2p1a0m3l6bA",
  "brokers": 3,
  "brokerEpochs": {
    "0": 4
  },
  "topics": [
    {
      "name": "tickets",
      "id": "0S1Yt0aGQ5mX9S8hq3sYxQ",
      "origin": "manifest",
      "spec": {
        "cluster": "demo",
        "partitions": 1,
        "cleanupPolicy": "Compact",
        "reclaimPolicy": "Retain"
      }
    }
  ],
  "assignments": {
    "old/0": "5,6 k3f9x2ab retained",
    "tickets/0": "2,1 0S1Yt0aG"
  },
  "partitions": {
    "old/0": "-@7? 5:9,6 i 3",
    "tickets/0": "2@4? 2:3 a1b2 11"
  },
  "directories": {
    "2:3": "Zx0hXnY7Q0W2p1a0m3l6bA"
  }
}
`

func TestEncodeRestoresTheDecodedFile(t *testing.T) {
	d, err := decode([]byte(example))
	if err != nil {
		t.Fatal(err)
	}
	again, err := d.encode()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(example, string(again)); diff != "" {
		t.Errorf("file (-want +got):\n%s", diff)
	}
}

// TestFormatDocumentation checks that the example in docs/internals/format/local-metadata.md is a
// valid file, and that the page describes every field.
func TestFormatDocumentation(t *testing.T) {
	page, err := os.ReadFile("../../../docs/internals/format/local-metadata.md")
	if err != nil {
		t.Fatal(err)
	}
	example := regexp.MustCompile("(?s)```json\n(.*?)```").FindSubmatch(page)
	if example == nil {
		t.Fatal("the page contains no example")
	}
	got, err := decode(example[1])
	if err != nil {
		t.Fatalf("the example of the page: %v", err)
	}
	tickets := got.placed(partitionset.Key{Topic: "tickets"})
	if len(got.Topics) != 1 || tickets.LeaderEpoch != 4 || len(tickets.ISR) != 2 {
		t.Errorf("the example of the page decodes to %+v with %+v", got, tickets)
	}
	for _, name := range []string{"version", "clusterId", "brokers", "brokerEpochs", "producerIds",
		"cluster", "topics", "name", "id", "origin", "spec", "cleanNow", "draining", "racks",
		"assignments", "partitions", "directories"} {
		if !strings.Contains(string(page), "| `"+name+"` |") {
			t.Errorf("the page does not describe %s", name)
		}
	}
}

func TestDecodeRejectsInvalidFiles(t *testing.T) {
	for _, test := range []struct{ old, new, want string }{
		{`"version": 3`, `"version": 4`, "version is 4, this release supports version 3"},
		{`"version": 3,`, ``, "version is 0"},
		{`"brokers": 3`, `"brokers": 3, "draining": 3`, "draining is 3"},
		{`2@4? 2:3`, `2@0? 2:3`, "ISR [2] in leader epoch 0"},
		{`2@4? 2:3`, `2@4? 2`, "ISR [] in leader epoch 4"},
		{`2@4? 2:3`, `2@4? 2,1:3`, "leader 2 is not in the ISR [1]"},
		{`2@4? 2:3`, `2@4? 2,2:3`, "broker 2 has two replicas"},
		{`2@4? 2:3 a1b2 11`, `2@4? 2:3 a1b2 11 unproven=5`, "leader epoch 4, unproven epoch 5"},
		{`2@4? 2:3 a1b2 11`, `2@4? 2:3 a1b2 11 colour=5`, `word "colour=5" is unknown`},
		{`"2,1 0S1Yt0aG"`, `"0,0 0S1Yt0aG"`, `entry "tickets/0"`},
		{`"2,1 0S1Yt0aG"`, `"2,3 0S1Yt0aG"`, "brokers must be from 0 to 2"},
		{`"2,1 0S1Yt0aG"`, `"2,1 0S1Yt0aG retained"`, "retained, but the topic exists"},
		{`"2,1 0S1Yt0aG"`, `"2,1 1S1Yt0aG"`, "belongs to topic 1S1Yt0aG"},
		{`"5,6 k3f9x2ab retained"`, `"5,6 k3f9x2ab"`, "neither retained nor a partition"},
		{`"partitions": 1`, `"partitions": 2`, "partition 1 has no assignment"},
		{`"partitions": 1`, `"partitions": 0`, "no partitions"},
		{`"tickets/0": "2@4?`, `"tickets/1": "2@4?`, "state without an assignment"},
		{`"version"`, `"colour": "blue", "version"`, `unknown field "colour"`},
		{`Vx0hXnY7Q0W2p1a0m3l6bA`, `short`, "clusterId: parse id"},
		{`"brokers": 3`, `"brokers": 0`, "must be at least 1"},
		{`"0": 4`, `"-1": 4`, "neither may be negative"},
		{`"name": "tickets"`, `"name": "a b"`, "invalid topic name"},
		{`"0S1Yt0aGQ5mX9S8hq3sYxQ"`, `""`, "parse id"},
		{`"origin": "manifest"`, `"origin": "moon"`, `origin is "moon"`},
		{`"cleanupPolicy": "Compact"`, `"cleanupPolicy": "Shrink"`,
			"spec.cleanupPolicy: Unsupported value"},
		{"\n}\n", "\n}\n{}", "unexpected content after the object"},
		{"\n}\n", "", "unexpected EOF"},
	} {
		if !strings.Contains(example, test.old) {
			t.Fatalf("the example does not contain %s", test.old)
		}
		_, err := decode([]byte(strings.Replace(example, test.old, test.new, 1)))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s instead of %s: got error %v, want %q", test.new, test.old, err, test.want)
		}
	}
	start, end := strings.Index(example, "    {\n      \"name\""), strings.Index(example, "  ],\n  \"assign")
	twice := example[:end-1] + ",\n" + example[start:]
	if _, err := decode([]byte(twice)); err == nil ||
		!strings.Contains(err.Error(), `"tickets" is a duplicate`) {
		t.Errorf("a duplicate topic: got error %v", err)
	}
}

// FuzzDecode checks that decode does not panic, and that an image can be built from a decoded file.
// If a decoded file is encoded, decoded and encoded again, the encoded content must be the same.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(example))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		d, err := decode(content)
		if err != nil {
			return
		}
		if _, err := d.image(nil); err != nil {
			t.Fatalf("no image can be built from a decoded file: %v", err)
		}
		first, err := d.encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := decode(first)
		if err != nil {
			t.Fatalf("an encoded file was rejected: %v\n%s", err, first)
		}
		if second, _ := again.encode(); !bytes.Equal(second, first) {
			t.Fatalf("decoding and encoding changed the file:\n%s",
				cmp.Diff(string(first), string(second)))
		}
	})
}
