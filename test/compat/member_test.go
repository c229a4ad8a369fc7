//go:build compat

package compat

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"heartwood.dev/heartwood/test/kit/await"
)

// partitions is the topic's number of partitions.
const partitions = 6

// member is a running program from testdata that is a member of a group. It prints its assignments
// and the records that it reads, as lines of JSON. When its standard input ends, it leaves the
// group.
type member struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.Closer
	ended chan struct{}
	mu    sync.Mutex
	state observations
}

// observations are the data in the lines that a member has printed so far.
type observations struct {
	version string
	owned   []string    // assigned partitions, as "topic-partition"
	changes int         // number of changes of owned
	read    map[int]int // number of reads of each record, by number (scenario.send)
}

// startMember starts a member. If instance is not empty, the member is a static member with this
// group instance id.
func startMember(t *testing.T, command []string, bootstrap, group, instance,
	subscription string) *member {
	t.Helper()
	args := append(slices.Clone(command), bootstrap, group, instance, subscription)
	m := &member{t: t, cmd: exec.Command(args[0], args[1:]...), ended: make(chan struct{}),
		state: observations{read: map[int]int{}}}
	var stderr strings.Builder
	m.cmd.Stderr = &stderr
	stdin, err := m.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := m.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	m.stdin = stdin
	go func() {
		defer close(m.ended)
		m.listen(json.NewDecoder(stdout))
		_ = m.cmd.Wait() // error for a killed member is expected
	}()
	t.Cleanup(func() {
		m.kill()
		if t.Failed() {
			t.Logf("%q %q: %+v\n%s", group, instance, m.observed(), stderr.String())
		}
	})
	return m
}

func (m *member) listen(lines *json.Decoder) {
	for {
		var l line
		if lines.Decode(&l) != nil {
			return
		}
		m.mu.Lock()
		switch l.Step {
		case "client":
			m.state.version = l.Version
		case "assigned":
			m.state.owned = l.Topics
			m.state.changes++
		case "record":
			partition := 0
			if n, err := fmt.Sscanf(l.Source, topic+"-%d", &partition); n == 1 && err == nil {
				m.state.read[int(l.Offset)*partitions+partition]++
			}
		}
		m.mu.Unlock()
	}
}

func (m *member) observed() observations {
	m.mu.Lock()
	defer m.mu.Unlock()
	state := m.state
	state.read = maps.Clone(m.state.read)
	return state
}

func (m *member) kill() {
	_ = m.cmd.Process.Kill() // error for a process that has ended is harmless
	<-m.ended
}

// leave closes the member's standard input and waits until the member has left the group and
// exited.
func (m *member) leave() {
	m.t.Helper()
	_ = m.stdin.Close()
	select {
	case <-m.ended:
	case <-time.After(await.Limit):
		m.t.Fatal("a member has not left")
	}
}

// share waits until no partition has two owners and each member owns the given number of
// partitions.
func share(t *testing.T, each int, members ...*member) {
	t.Helper()
	await.For(t, func() string {
		owners := map[string]int{}
		for i, m := range members {
			owned := m.observed().owned
			if len(owned) != each {
				return fmt.Sprintf("member %d owns %v, want %d partitions", i, owned, each)
			}
			for _, partition := range owned {
				owners[partition]++
			}
		}
		for partition, n := range owners {
			if n > 1 {
				return fmt.Sprintf("%s is owned by %d members", partition, n)
			}
		}
		return ""
	})
}

// read waits until the members together have read all records with numbers in [from, to).
func read(t *testing.T, from, to int, members ...*member) {
	t.Helper()
	await.For(t, func() string {
		missing := map[int]bool{}
		for number := from; number < to; number++ {
			missing[number] = true
		}
		for _, m := range members {
			for number := range m.observed().read {
				delete(missing, number)
			}
		}
		if len(missing) > 0 {
			return fmt.Sprintf("%d of %d records are not read", len(missing), to-from)
		}
		return ""
	})
}
