package local

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// example is a complete file.
const example = `{
  "version": 2,
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
      },
      "partitions": [
        {
          "replicas": [
            2
          ],
          "leaderEpoch": 4,
          "isr": [
            {
              "broker": 2,
              "epoch": 3,
              "directory": "Zx0hXnY7Q0W2p1a0m3l6bA"
            }
          ],
          "leaderDirectory": "Zx0hXnY7Q0W2p1a0m3l6bA"
        }
      ]
    }
  ]
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

// TestFormatDocumentation: the example in docs/format/local-metadata.md is a valid file, and the
// page describes every field.
func TestFormatDocumentation(t *testing.T) {
	page, err := os.ReadFile("../../../docs/format/local-metadata.md")
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
	if got.find("tickets"); len(got.Topics) != 1 || got.Topics[0].Partitions[0].LeaderEpoch != 4 {
		t.Errorf("the example of the page decodes to %+v", got)
	}
	for _, name := range []string{"version", "clusterId", "brokers", "brokerEpochs", "cluster",
		"topics", "retained", "name", "id", "origin", "spec", "partitions",
		"draining", "racks", "replicas", "target", "leaderEpoch", "isr", "leaderDirectory"} {
		if !strings.Contains(string(page), "| `"+name+"` |") {
			t.Errorf("the page does not describe %s", name)
		}
	}
}

func TestDecodeRejectsInvalidFiles(t *testing.T) {
	for _, test := range []struct{ old, new, want string }{
		{`"version": 2`, `"version": 3`, "version is 3, this release supports versions 1 to 2"},
		{`"version": 2,`, ``, "version is 0"},
		{`"brokers": 3`, `"brokers": 3, "draining": 3`, "draining is 3"},
		{`"broker": 2`, `"broker": 1`, "isr is [1], must be a subset of the replicas [2]"},
		{`"epoch": 3`, `"epoch": -3`, "negative epoch"},
		{`"leaderEpoch": 4`, `"leaderEpoch": 0`, "isr is [2] with leaderEpoch 0"},
		{`"leaderEpoch": 4`, `"target": [0, 0], "leaderEpoch": 4`,
			"target are [0 0], must be distinct brokers"},
		{`"version"`, `"colour": "blue", "version"`, `unknown field "colour"`},
		{`Vx0hXnY7Q0W2p1a0m3l6bA`, `short`, "clusterId: parse id"},
		{`"brokers": 3`, `"brokers": 0`, "must be at least 1"},
		{`"0": 4`, `"-1": 4`, "neither may be negative"},
		{`"tickets"`, `"a b"`, "invalid topic name"},
		{`"0S1Yt0aGQ5mX9S8hq3sYxQ"`, `""`, "parse id"},
		{`"origin": "manifest"`, `"origin": "moon"`, `origin is "moon"`},
		{`"leaderEpoch": 4`, `"leaderEpoch": -1`, "leaderEpoch is -1"},
		{`            2`, `            3`, "must be distinct brokers from 0 to 2"},
		{`            2`, `            2, 2`, "must be distinct brokers"},
		{`            2`, ``, "no replicas"},
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
	start, end := strings.Index(example, "    {\n      \"name\""), strings.Index(example, "  ]\n}")
	twice := example[:end-1] + ",\n" + example[start:]
	if _, err := decode([]byte(twice)); err == nil ||
		!strings.Contains(err.Error(), `"tickets" is a duplicate`) {
		t.Errorf("a duplicate topic: got error %v", err)
	}
}

// TestDecodeVersion1: in version 1 every partition has one replica. If the partition has had a
// leader, this replica becomes the ISR.
func TestDecodeVersion1(t *testing.T) {
	d, err := decode(
		[]byte(
			`{"version": 1, "clusterId": "Vx0hXnY7Q0W2p1a0m3l6bA", "brokers": 1, "brokerEpochs": {"0": 4}, "topics": [
		{"name": "a", "id": "0S1Yt0aGQ5mX9S8hq3sYxQ", "origin": "kafka", "spec": {"cluster": "demo", "partitions": 2},
		 "partitions": [{"replicas": [0], "leaderEpoch": 4}, {"replicas": [0], "leaderEpoch": 0}]}],
		"retained": {"b": [{"replicas": [0], "leaderEpoch": 2}]}}`,
		),
	)
	if err != nil {
		t.Fatal(err)
	}
	want := []member{{Broker: 0, Epoch: 4}}
	if diff := cmp.Diff(want, d.Topics[0].Partitions[0].ISR); diff != "" ||
		d.Topics[0].Partitions[1].ISR != nil {
		t.Errorf("ISR (-want +got):\n%s, ISR of a partition without a leader: got %v, want none", diff,
			d.Topics[0].Partitions[1].ISR)
	}
	if diff := cmp.Diff(want, d.Retained["b"][0].ISR); diff != "" || d.Version != 2 {
		t.Errorf("version %d; ISR of a retained partition (-want +got):\n%s", d.Version, diff)
	}
}

// FuzzDecode checks that decode does not panic, that an image can be built from a decoded file, and
// that decoding an encoded file and encoding it again does not change the content.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(example))
	f.Add([]byte(`{}`))
	f.Add(
		[]byte(
			`{"version":1,"clusterId":"Vx0hXnY7Q0W2p1a0m3l6bA","brokers":1,"brokerEpochs":null,"topics":null,"retained":null}`,
		),
	)
	f.Add([]byte(`{"version":1,"retained":{"a":[{"replicas":[7],"leaderEpoch":2}]}}`))
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
