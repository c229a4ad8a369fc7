//go:build compat

package compat

import (
	"crypto/sha512"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestJavaTools runs Kafka's command line tools for topics and their settings, producing, consuming
// from the beginning, finding offsets by timestamp, API versions, and decoding log files
// (dump-log).
func TestJavaTools(t *testing.T) {
	proof := newRow(
		t,
		"Kafka's command line tools",
		"topics, configs, console producer and consumer, offsets, API versions; dump-log over our files",
	)
	java, classes := need(t, "java", "-version"), jars(t)
	proof.version = toolsVersion(classes)
	t.Parallel()
	// The segments are small, which makes some of them sealed, with index entries.
	s, bootstrap := startCluster(t,
		topicManifest+"  segment: {size: 64Ki}\n  compression: {type: zstd}\n")
	tool := func(stdin, class string, args ...string) string {
		return output(t, stdin, append(javaTool(java, classes, class), args...)...)
	}
	server := []string{"--bootstrap-server", bootstrap}
	topics := func(args ...string) string {
		return tool("", "org.apache.kafka.tools.TopicCommand", append(args, server...)...)
	}

	topics("--create", "--topic", "made", "--partitions", "3", "--replication-factor", "1",
		"--config", "cleanup.policy=compact")
	expect(t, topics("--list"), `(?m)^made$`, `(?m)^`+topic+`$`)
	expect(t, topics("--describe", "--topic", "made"), `PartitionCount: 3`,
		`cleanup\.policy=compact`, `Partition: 2\s+Leader: 0\s+Replicas: 0\s+Isr: 0`)
	configs := tool("", "org.apache.kafka.tools.ConfigCommand",
		append(server, "--describe", "--all", "--topic", topic)...)
	expect(t, configs, `compression\.type=zstd`, `segment\.bytes=65536`)
	topics("--delete", "--topic", "made")
	if listed := topics("--list"); strings.Contains(listed, "made") {
		t.Errorf("deleted and still listed: %s", listed)
	}
	expect(t, tool("", "org.apache.kafka.tools.BrokerApiVersionsCommand", server...),
		`Produce\(0\): 0 to 13 \[usable: 13\]`, `Fetch\(1\): 4 to 18`)

	const count = 2000
	var input strings.Builder
	for i := range count {
		// The values contain random bytes, because compressible values would not fill segments.
		noise := sha512.Sum512([]byte{byte(i), byte(i >> 8)})
		fmt.Fprintf(&input, "n:%d,key-%d:value %d %x\n", i, i, i, noise)
	}
	tool(input.String(), "org.apache.kafka.tools.ConsoleProducer", append(server, "--topic", topic,
		"--reader-property", "parse.key=true", "--reader-property", "key.separator=:",
		"--reader-property", "parse.headers=true",
		"--reader-property", "headers.delimiter=,", "--reader-property", "headers.separator=;",
		"--reader-property", "headers.key.separator=:",
		"--compression-codec", "gzip")...)
	read := tool("", "org.apache.kafka.tools.consumer.ConsoleConsumer",
		append(server, "--topic", topic, "--partition", "0", "--offset", "earliest",
			"--max-messages", fmt.Sprint(count), "--timeout-ms", "60000", "--formatter-property",
			"print.key=true", "--formatter-property", "print.headers=true")...)
	expect(t, read, `(?m)^n:0\s+key-0\s+value 0 `,
		fmt.Sprintf(`(?m)^n:%d\s+key-%[1]d\s+value %[1]d `, count-1))
	if lines := strings.Count(read, "\n"); lines != count {
		t.Errorf("%d records were read, %d were sent", lines, count)
	}
	offsets := tool("", "org.apache.kafka.tools.GetOffsetShell",
		append(server, "--topic", topic, "--time", "latest")...)
	expect(t, offsets, fmt.Sprintf(`%s:0:%d`, topic, count))
	checkDump(t, s.DataDir, tool, count)
}

// checkDump runs Kafka's dump-log on the topic's files. The tool must decode all batches with their
// records, and find no fault in the offset and time indexes.
func checkDump(t *testing.T, dataDir string, tool func(stdin, class string, args ...string) string,
	count int) {
	t.Helper()
	folder := filepath.Join(dataDir, "broker-0", topic+"-0")
	logs, err := filepath.Glob(filepath.Join(folder, "*.log"))
	if err != nil || len(logs) < 2 {
		t.Fatalf("segments in %s: %v (%v); want at least 2", folder, logs, err)
	}
	dump := func(files ...string) string {
		return tool("", "org.apache.kafka.tools.DumpLogSegments", "--deep-iteration",
			"--print-data-log", "--files", strings.Join(files, ","))
	}
	text := dump(logs...)
	if records := strings.Count(text, "| offset: "); records != count {
		t.Errorf("dump-log found %d records in %d segments, %d were sent", records, len(logs),
			count)
	}
	expect(t, text, `compresscodec: zstd`, `isvalid: true`, `headerKeys: \[n\]`)
	for _, fault := range []string{"isvalid: false", "mismatch", "Mismatch", "corrupt",
		"invalid bytes"} {
		if strings.Contains(text, fault) {
			t.Errorf("dump-log printed %q", fault)
		}
	}
	for _, kind := range []string{"index", "timeindex"} {
		files, err := filepath.Glob(filepath.Join(folder, "*."+kind))
		if err != nil || len(files) != len(logs) {
			t.Fatalf("%d files *.%s for %d segments: %v", len(files), kind, len(logs), err)
		}
		text := tool("", "org.apache.kafka.tools.DumpLogSegments", "--files",
			strings.Join(files, ","))
		if strings.Contains(strings.ToLower(text), "mismatch") ||
			strings.Contains(text, "out of order") || !strings.Contains(text, "offset: ") {
			t.Errorf("dump-log over *.%s:\n%s", kind, text)
		}
	}
}

// toolsVersion returns the version of Kafka's jars.
func toolsVersion(classes string) string {
	found, _ := filepath.Glob(filepath.Join(filepath.Dir(classes), "kafka-clients-*.jar"))
	if len(found) == 0 {
		return "-"
	}
	return strings.TrimSuffix(strings.TrimPrefix(filepath.Base(found[0]), "kafka-clients-"), ".jar")
}

func expect(t *testing.T, text string, patterns ...string) {
	t.Helper()
	for _, pattern := range patterns {
		if !regexp.MustCompile(pattern).MatchString(text) {
			t.Errorf("%q is missing in:\n%.3000s", pattern, text)
		}
	}
}
