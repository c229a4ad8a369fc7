//go:build compat

package compat

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"heartwood.dev/heartwood/test/kit/ports"
)

// connectChecks describes testConnect in the table of docs/compatibility.md.
const connectChecks = "file to topic to file; stop, more lines, start again: each line once, in order"

const (
	fileSource = "org.apache.kafka.connect.file.FileStreamSourceConnector"
	fileSink   = "org.apache.kafka.connect.file.FileStreamSinkConnector"
)

func TestConnectStandalone(t *testing.T) {
	proof := newRow(t, "Kafka Connect", "standalone worker: "+connectChecks)
	testConnect(t, proof, false)
}

// TestConnectDistributed checks that the worker creates topics for its connectors, their offsets
// and their status, and stores these there.
func TestConnectDistributed(t *testing.T) {
	proof := newRow(t, "Kafka Connect",
		"distributed worker, with topics for configs, offsets and status: "+connectChecks)
	testConnect(t, proof, true)
}

// connect is a worker with two connectors. The source connector reads the file in, and the sink
// connector writes the file out.
type connect struct {
	t       *testing.T
	command []string
	rest    string
	in, out string
	wanted  strings.Builder
}

func testConnect(t *testing.T, proof *row, distributed bool) {
	t.Helper()
	java, classes, version := ecosystem(t)
	proof.version = version
	t.Parallel()
	dir := t.TempDir()
	c := &connect{t: t, rest: "http://" + ports.Free(t, 1),
		in: filepath.Join(dir, "in"), out: filepath.Join(dir, "out")}
	bootstrap := startBroker(t)
	worker := []string{"bootstrap.servers=" + bootstrap, "listeners=" + c.rest,
		"offset.flush.interval.ms=500", "plugin.discovery=only_scan",
		"key.converter=org.apache.kafka.connect.storage.StringConverter",
		"value.converter=org.apache.kafka.connect.storage.StringConverter"}
	if distributed {
		worker = append(worker, "group.id=workers")
		for _, kind := range []string{"config", "offset", "status"} {
			worker = append(worker, kind+".storage.topic=connect-"+kind,
				kind+".storage.replication.factor=1")
		}
		c.command = append(javaTool(java, classes,
			"org.apache.kafka.connect.cli.ConnectDistributed"),
			writeProperties(t, dir, "worker", worker...))
	} else {
		worker = append(worker, "offset.storage.file.filename="+filepath.Join(dir, "offsets"))
		c.command = append(javaTool(java, classes,
			"org.apache.kafka.connect.cli.ConnectStandalone"),
			writeProperties(t, dir, "worker", worker...),
			writeProperties(t, dir, "source", append(c.source(), "name=source")...),
			writeProperties(t, dir, "sink", append(c.sink(), "name=sink")...))
	}
	for round, lines := range []int{1000, 500} {
		c.write(lines)
		running := startService(t, c.command...)
		if distributed && round == 0 { // a restarted worker reads the connectors from its topic
			c.create(running, "source", c.source())
			c.create(running, "sink", c.sink())
		}
		running.await(c.check)
		running.stop()
	}
	if missing := c.check(); missing != "" {
		t.Error(missing)
	}
	stored := readAll(t, bootstrap, "connect-lines")[0]
	var text strings.Builder
	for _, r := range stored {
		text.Write(append(r.Value, '\n'))
	}
	if text.String() != c.wanted.String() {
		t.Errorf("the topic contains %d records, which are not the %d lines", len(stored), 1500)
	}
}

func (c *connect) source() []string {
	return []string{"connector.class=" + fileSource, "file=" + c.in, "topic=connect-lines",
		"topic.creation.default.partitions=1", "topic.creation.default.replication.factor=1"}
}

func (c *connect) sink() []string {
	return []string{"connector.class=" + fileSink, "file=" + c.out, "topics=connect-lines"}
}

// write appends lines to the file that the source connector reads.
func (c *connect) write(lines int) {
	c.t.Helper()
	begin := strings.Count(c.wanted.String(), "\n")
	for i := range lines {
		fmt.Fprintf(&c.wanted, "line %d\n", begin+i)
	}
	if err := os.WriteFile(c.in, []byte(c.wanted.String()), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// check compares the file that the sink connector has written with the expected lines.
func (c *connect) check() string {
	got, _ := os.ReadFile(c.out) // the file does not exist at first
	if string(got) != c.wanted.String() {
		return fmt.Sprintf("got %d lines, want %d", bytes.Count(got, []byte("\n")),
			strings.Count(c.wanted.String(), "\n"))
	}
	return ""
}

// create creates a connector with the worker's REST interface.
func (c *connect) create(running *service, name string, config []string) {
	c.t.Helper()
	var fields []string
	for _, line := range config {
		key, value, _ := strings.Cut(line, "=")
		fields = append(fields, fmt.Sprintf("%q:%q", key, value))
	}
	body := "{" + strings.Join(fields, ",") + "}"
	running.await(func() string {
		request, err := http.NewRequestWithContext(c.t.Context(), http.MethodPut,
			c.rest+"/connectors/"+name+"/config", strings.NewReader(body))
		if err != nil {
			c.t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err.Error() // the worker has not started yet
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusCreated && response.StatusCode != http.StatusOK {
			return "create connector " + name + ": " + response.Status
		}
		return ""
	})
}
