//go:build examples

package examples

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/test/kit/ports"
	"heartwood.dev/heartwood/test/kit/process"
	"heartwood.dev/heartwood/test/kit/traffic"
)

// exitSkipped is the exit code with which run.sh reports that a program or package is missing.
const exitSkipped = 77

// stopTimeout is the time that run.sh has to stop its processes when the test ends early.
const stopTimeout = 30 * time.Second

func TestMain(m *testing.M) { os.Exit(process.Main(m)) }

// example is an example that has run, and a broker on its data.
type example struct {
	t         *testing.T
	dir       string // folder in which the example has worked
	output    string
	bootstrap []string
	setup     process.Setup
}

// run runs an example and then starts a broker on its data.
func run(t *testing.T, name string) *example {
	t.Helper()
	folder, err := filepath.Abs(filepath.Join("..", "..", "examples", name))
	if err != nil {
		t.Fatal(err)
	}
	e := &example{t: t, dir: t.TempDir()}
	e.runScript(filepath.Join(folder, "run.sh"))
	e.setup = process.Setup{
		Manifests: filepath.Join(folder, "manifests"), DataDir: filepath.Join(e.dir, "data"),
		Listen: ports.Free(t, 1), HTTP: ports.Free(t, 1), Brokers: 1,
	}
	e.bootstrap, _ = process.Start(t, e.setup.Args()...).Ready(t)
	return e
}

func (e *example) runScript(script string) {
	e.t.Helper()
	cmd := exec.CommandContext(e.t.Context(), script)
	cmd.Env = append(os.Environ(), "EXAMPLE_DIR="+e.dir)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopTimeout
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	e.output = out.String()
	var exited *exec.ExitError
	if errors.As(err, &exited) && exited.ExitCode() == exitSkipped {
		e.t.Skip(e.output)
	}
	if err != nil {
		e.t.Fatalf("%s: %v\n%s", script, err, e.output)
	}
	e.t.Log(e.output)
}

// read returns all records of a topic.
func (e *example) read(topic string) []*kgo.Record {
	e.t.Helper()
	records, err := traffic.ReadAll(process.WithDeadline(e.t), e.bootstrap, topic)
	if err != nil {
		e.t.Fatal(err)
	}
	return records
}

// latest returns the value of the latest record of each key of a topic, without the keys whose
// latest record is a tombstone. It fails if a key has records in two partitions, because these
// records have no order.
func (e *example) latest(topic string) map[string]string {
	e.t.Helper()
	values, partitions := map[string]string{}, map[string]int32{}
	for _, r := range e.read(topic) {
		key := string(r.Key)
		if other, found := partitions[key]; found && other != r.Partition {
			e.t.Errorf("%s: key %q is in partitions %d and %d", topic, key, other, r.Partition)
		}
		partitions[key] = r.Partition
		if r.Value == nil {
			delete(values, key)
		} else {
			values[key] = string(r.Value)
		}
	}
	return values
}

// expectSteps checks that the example has reported each step.
func (e *example) expectSteps(steps ...string) {
	e.t.Helper()
	for _, step := range steps {
		if !strings.Contains(e.output, step) {
			e.t.Errorf("the example has not reported %q", step)
		}
	}
}
