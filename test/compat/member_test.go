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

	"heartwood.dev/heartwood/test/kit/process"
)

// partitions of the topic.
const partitions = 6

// member is a program in testdata that is a member of a group: it says what it is assigned and what
// it reads (line), and leaves when its standard input ends.
type member struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.Closer
	ended chan struct{}
	mu    sync.Mutex
	saw   seen
}

// seen is what a member has said.
type seen struct {
	version string
	owned   []string    // topic-partition
	changes int         // of owned
	read    map[int]int // records by their number (story.send), how often
}

// startMember starts one; of an instance "" it is dynamic.
func startMember(t *testing.T, command []string, bootstrap, group, instance,
	subscription string) *member {
	t.Helper()
	args := append(slices.Clone(command), bootstrap, group, instance, subscription)
	m := &member{t: t, cmd: exec.Command(args[0], args[1:]...), ended: make(chan struct{}),
		saw: seen{read: map[int]int{}}}
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
		_ = m.cmd.Wait() // some are killed
	}()
	t.Cleanup(func() {
		m.kill()
		if t.Failed() {
			t.Logf("%q %q: %+v\n%s", group, instance, m.says(), stderr.String())
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
			m.saw.version = l.Version
		case "assigned":
			m.saw.owned = l.Topics
			m.saw.changes++
		case "record":
			partition := 0
			if n, err := fmt.Sscanf(l.Source, topic+"-%d", &partition); n == 1 && err == nil {
				m.saw.read[int(l.Offset)*partitions+partition]++
			}
		}
		m.mu.Unlock()
	}
}

func (m *member) says() seen {
	m.mu.Lock()
	defer m.mu.Unlock()
	saw := m.saw
	saw.read = maps.Clone(m.saw.read)
	return saw
}

// kill ends the process at once.
func (m *member) kill() {
	_ = m.cmd.Process.Kill() // it may have ended
	<-m.ended
}

// leave has it leave in order.
func (m *member) leave() {
	m.t.Helper()
	_ = m.stdin.Close()
	select {
	case <-m.ended:
	case <-time.After(process.Deadline):
		m.t.Fatal("a member does not leave")
	}
}

// share waits until members have so many partitions each, and none is two's.
func share(t *testing.T, each int, members ...*member) {
	t.Helper()
	process.Until(t, func() string {
		owners := map[string]int{}
		for i, m := range members {
			owned := m.says().owned
			if len(owned) != each {
				return fmt.Sprintf("member %d has %v, wants %d partitions", i, owned, each)
			}
			for _, partition := range owned {
				owners[partition]++
			}
		}
		for partition, n := range owners {
			if n > 1 {
				return fmt.Sprintf("%s is %d members'", partition, n)
			}
		}
		return ""
	})
}

// read waits until members have read the records with the numbers from one to another between them.
func read(t *testing.T, from, to int, members ...*member) {
	t.Helper()
	process.Until(t, func() string {
		missing := map[int]bool{}
		for number := from; number < to; number++ {
			missing[number] = true
		}
		for _, m := range members {
			for number := range m.says().read {
				delete(missing, number)
			}
		}
		if len(missing) > 0 {
			return fmt.Sprintf("%d of %d records are not read", len(missing), to-from)
		}
		return ""
	})
}
