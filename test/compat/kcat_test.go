//go:build compat

package compat

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// kcatVersion matches the versions of kcat and of librdkafka in the output of kcat -V.
var kcatVersion = regexp.MustCompile(`(Version|librdkafka) [0-9.]+`)

// kcatRecord is a record in the JSON output of kcat -J.
type kcatRecord struct {
	Offset    int64
	Timestamp int64 `json:"ts"`
	Key       *string
	Payload   *string
	Headers   []string // alternating names and values
}

// TestKcat runs the same steps as the other clients' tests, as far as kcat supports them. kcat
// cannot change topic settings or set records' timestamps.
func TestKcat(t *testing.T) {
	proof := newRow(t, "kcat",
		"list topics; produce and read with keys, nulls and headers in five codecs")
	kcat := need(t, "kcat", "-V")
	proof.version = strings.Join(kcatVersion.FindAllString(output(t, "", kcat, "-V"), -1), ", ")
	t.Parallel()
	s, bootstrap := startCluster(t, topicManifest)
	run := func(stdin string, args ...string) string {
		return output(t, stdin, append([]string{kcat, "-b", bootstrap}, args...)...)
	}
	var listed struct{ Topics []struct{ Topic string } }
	if err := json.Unmarshal([]byte(run("", "-L", "-J")), &listed); err != nil ||
		len(listed.Topics) != 1 || listed.Topics[0].Topic != topic {
		t.Errorf("-L lists %+v (%v)", listed, err)
	}
	var sent []line
	for _, codec := range codecs {
		key, value := codec+"-key", strings.Repeat(codec+" ", 100)
		// With option -Z, kcat sends an empty value as null.
		run(key+":"+value+"\n"+key+":\n", "-P", "-t", topic, "-p", "0", "-K:", "-Z", "-z", codec,
			"-H", "codec="+codec,
			"-X", "enable.idempotence=true", "-X", "linger.ms=200")
		for _, v := range []*string{&value, nil} {
			sent = append(sent,
				line{Offset: int64(len(sent)), Key: &key, Value: v,
					Headers: map[string]string{"codec": codec}})
		}
	}
	consume := func(args ...string) []line {
		return kcatLines(t, run("",
			append([]string{"-C", "-J", "-q", "-t", topic, "-p", "0"}, args...)...))
	}
	all := consume("-o", "beginning", "-e")
	compareKcat(t, "beginning", all, sent)
	compareKcat(t, "offset", consume("-o", "7", "-e"), sent[7:])
	if len(all) == len(sent) {
		// Records before all[7] can have the same timestamp as all[7], because kcat sets the timestamps.
		index := slices.IndexFunc(all, func(l line) bool { return l.Timestamp >= all[7].Timestamp })
		compareKcat(t, "timestamp", consume("-o", fmt.Sprint("s@", all[7].Timestamp), "-e"),
			sent[index:])
	}
	compareKcat(t, "last two", consume("-o", "-2", "-e"), sent[len(sent)-2:])
	checkLongPoll(t, kcat, bootstrap)
	last := "while it waits"
	checkStored(t, bootstrap, append(sent, line{Value: &last, Headers: map[string]string{}}), false)
	if rejected := sum(s.Metrics(t)["heartwood_broker_connection_rejected_total"]); rejected != 0 {
		t.Errorf("%d connections were closed because of invalid requests", rejected)
	}
}

// checkLongPoll starts a consumer at the end of the topic, and sends a record while the consumer
// waits there. The consumer must receive this record.
func checkLongPoll(t *testing.T, kcat, bootstrap string) {
	t.Helper()
	waiting := exec.CommandContext(t.Context(), kcat, "-b", bootstrap, "-C", "-u", "-t", topic,
		"-p", "0", "-o", "end", "-c", "1")
	stderr, err := waiting.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stdout strings.Builder
	waiting.Stdout = &stdout
	if err := waiting.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		if strings.Contains(lines.Text(), "Reached end") { // the consumer has found its position
			output(t, "while it waits\n", kcat, "-b", bootstrap, "-P", "-t", topic, "-p", "0")
			break
		}
	}
	if err := waiting.Wait(); err != nil || stdout.String() != "while it waits\n" {
		t.Errorf("the waiting consumer received %q, error %v", stdout.String(), err)
	}
}

func kcatLines(t *testing.T, text string) []line {
	t.Helper()
	var lines []line
	for decoder := json.NewDecoder(strings.NewReader(text)); decoder.More(); {
		var r kcatRecord
		if err := decoder.Decode(&r); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		l := line{Offset: r.Offset, Timestamp: r.Timestamp, Key: r.Key, Value: r.Payload,
			Headers: map[string]string{}}
		for i := 0; i+1 < len(r.Headers); i += 2 {
			l.Headers[r.Headers[i]] = r.Headers[i+1]
		}
		lines = append(lines, l)
	}
	return lines
}

// compareKcat compares the records that kcat has read with the sent records. It ignores timestamps,
// because kcat sets them itself.
func compareKcat(t *testing.T, source string, got, want []line) {
	t.Helper()
	ok := slices.EqualFunc(got, want, func(a, b line) bool {
		return a.Offset == b.Offset && equal(a.Key, b.Key) && equal(a.Value, b.Value) &&
			maps.Equal(a.Headers, b.Headers)
	})
	if !ok {
		t.Errorf("from the %s %d records were read, which differ from the %d sent", source,
			len(got),
			len(want))
	}
}
