package inspect

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"heartwood.dev/heartwood/internal/vfs"
)

// TestDumpMatchesKafkasDumpLog checks that Dump's output for Kafka's files contains the same fields
// as the output of Kafka's dump-log.
func TestDumpMatchesKafkasDumpLog(t *testing.T) {
	kafka, err := os.ReadFile(vectors + "/dump-log.txt")
	must(t, err)
	want := kafkaLines(t, string(kafka))
	var paths []string
	for _, name := range []string{
		"vectors-0/00000000000000000000", "vectors-0/00000000000000000061",
		"vectors-0/00000000000000000064",
		"compacted-0/00000000000000000000", "compacted-0/00000000000000000040",
	} {
		paths = append(paths, vectors+"/"+name+".log")
	}
	got := ourLines(t, dump(t, vfs.OS{}, DumpOptions{Records: true, JSON: true, TextMax: 1000},
		paths...))
	if len(want) != 46+91 || len(got) != len(want) {
		t.Fatalf("got %d lines, Kafka prints %d, want 137 each", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("line %d: got %s\nwant %s (Kafka)", i, got[i], want[i])
		}
	}
}

var kafkaField = regexp.MustCompile(`(\w+): (\S*)`)

// kafkaLines converts dump-log's output to the format of ourLines.
func kafkaLines(t *testing.T, text string) (lines []string) {
	for scanner := bufio.NewScanner(strings.NewReader(text)); scanner.Scan(); {
		line := scanner.Text()
		f := map[string]string{}
		for _, match := range kafkaField.FindAllStringSubmatch(line, -1) {
			if _, seen := f[match[1]]; !seen { // a record's payload may look like a field
				f[match[1]] = match[2]
			}
		}
		switch {
		case strings.HasPrefix(line, "baseOffset"):
			horizon := strings.TrimSuffix(strings.TrimPrefix(f["deleteHorizonMs"], "OptionalLong["),
				"]")
			if horizon == "OptionalLong.empty" {
				horizon = "none"
			}
			lines = append(lines,
				fmt.Sprint("batch ", f["position"], f["size"], " ", f["baseOffset"], "-",
					f["lastOffset"], " ", f["count"],
					f["compresscodec"], f["CreateTime"], " ", f["partitionLeaderEpoch"], " ",
					f["producerId"], ":", f["producerEpoch"], ":",
					f["baseSequence"], " ", f["isTransactional"], f["isControl"], horizon, " ",
					f["crc"]))
		case strings.HasPrefix(line, "| offset"):
			key, value, marker := f["key"], "", strings.ToLower(f["endTxnMarker"])
			if _, payload, ok := strings.Cut(line, " payload: "); ok {
				value = payload
			}
			if marker != "" {
				key, value = "", ""
			}
			lines = append(lines,
				fmt.Sprint("record ", f["offset"], " ", f["CreateTime"], " ", key, "=", value, " ",
					marker,
					" ", f["keySize"], ":", f["valueSize"]))
		}
	}
	return lines
}

// ourLines converts Dump's JSON output to one line per batch or record.
func ourLines(t *testing.T, text string) (lines []string) {
	type record struct { // the JSON form of recordLine
		Offset, Timestamp    int64
		Key, Value           *string
		KeyBytes, ValueBytes int
		Marker               string
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	for {
		var raw json.RawMessage
		err := decoder.Decode(&raw)
		if err == io.EOF {
			return lines
		}
		must(t, err)
		if bytes.Contains(raw, []byte(`"baseOffset"`)) {
			var b batchLine
			must(t, json.Unmarshal(raw, &b))
			horizon := "none"
			if b.DeleteHorizon != nil {
				horizon = fmt.Sprint(*b.DeleteHorizon)
			}
			lines = append(lines,
				fmt.Sprintf("batch %d%d %d-%d %d%s%d %d %d:%d:%d %v%v%s %d", b.Position, b.Bytes,
					b.BaseOffset, b.LastOffset,
					b.Records, b.Codec, b.MaxTimestamp, b.LeaderEpoch, b.ProducerID,
					b.ProducerEpoch,
					b.BaseSequence, b.Transactional, b.Control,
					horizon, b.CRC))
			continue
		}
		var r record
		must(t, json.Unmarshal(raw, &r))
		key, value := "", ""
		if r.Key != nil && r.Marker == "" {
			key = *r.Key
		}
		if r.Value != nil && r.Marker == "" {
			value = *r.Value
		}
		valueSize := r.ValueBytes
		if r.Value == nil {
			valueSize = -1
		}
		lines = append(lines, fmt.Sprintf("record %d %d %s=%s %s %d:%d", r.Offset, r.Timestamp, key,
			value, r.Marker, r.KeyBytes, valueSize))
	}
}
