package smoke

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/test/kit/process"
)

// keyedTopic is a compacted topic.
const keyedTopic = `apiVersion: heartwood.dev/v1alpha1
kind: Topic
metadata: {name: tickets}
spec: {cluster: smoke, partitions: 3, cleanupPolicy: Compact}
`

// TestKeysArePrinted runs `heartwood get` on a cluster for four keys: a key with several records, a
// deleted key, a key that another partitioner has sent to a different partition, and a key that
// does not exist.
func TestKeysArePrinted(t *testing.T) {
	t.Parallel()
	s := process.NewSetup(t, 1, fmt.Sprintf(limited, 1, fast), keyedTopic)
	bootstrap, _ := process.Start(t, s.Args()...).Ready(t)
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.DefaultProduceTopic("tickets"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, pair := range [][2]string{{"one", "old\x00"}, {"gone", "value"}, {"one", "new"},
		{"gone", ""}} {
		r := &kgo.Record{Key: []byte(pair[0]), Value: []byte(pair[1])}
		if pair[1] == "" {
			r.Value = nil
		}
		if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	elsewhere := &kgo.Record{Key: []byte("elsewhere"), Value: []byte("found")}
	chosen := kgo.StickyKeyPartitioner(nil).ForTopic("tickets").Partition(elsewhere, 3)
	elsewhere.Partition = int32(chosen+1) % 3
	manual, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.DefaultProduceTopic("tickets"),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer manual.Close()
	if err := manual.ProduceSync(t.Context(), elsewhere).FirstErr(); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args        []string
		code        int
		out, errOut string
	}{
		{[]string{"one"}, 0, "new", ""},
		{[]string{"b25l", "--base64"}, 0, "new", ""},
		{[]string{"one", "--all-partitions"}, 0, "new", ""},
		{[]string{"elsewhere"}, 0, "found", ""},
		{[]string{"elsewhere", "--partition", strconv.Itoa(chosen)}, 1, "",
			`topic tickets has no record of key "elsewhere"`},
		{[]string{"gone"}, 1, "", `key "gone" of topic tickets was deleted by offset`},
		{[]string{"none"}, 1, "", `topic tickets has no record of key "none"`},
		{[]string{"one", "--partition", "99"}, 1, "", "unknown partition"},
		{[]string{"one", "--partition", "-1"}, 2, "", "invalid argument -1 for --partition"},
	} {
		code, out, errOut := heartwood(t,
			append([]string{"get", "tickets", "--address", s.HTTP}, test.args...)...)
		if code != test.code || out != test.out || !strings.Contains(errOut, test.errOut) {
			t.Errorf("%v: got exit code %d, %q, %q", test.args, code, out, errOut)
		}
	}
	code, out, _ := heartwood(t, "get", "tickets", "one", "--history", "--address", s.HTTP)
	lines := strings.Split(out, "\n")
	if code != 0 || len(lines) != 3 {
		t.Fatalf("history: got exit code %d, %q, want two lines", code, out)
	}
	if !strings.Contains(lines[1], "live") || !strings.Contains(lines[1], `"new"`) {
		t.Errorf("history: got %q, want the live record", lines[1])
	}
	old := lines[2]
	if !strings.Contains(old, "superseded by") || !strings.Contains(old, `"old\x00"`) {
		t.Errorf("history: got %q, want the superseded record", old)
	}
	code, out, _ = heartwood(t, "get", "tickets", "gone", "--history", "--address", s.HTTP)
	if code != 1 || !strings.Contains(out, "tombstone, waits for") {
		t.Errorf("history of a deleted key: got exit code %d, %q", code, out)
	}
}
