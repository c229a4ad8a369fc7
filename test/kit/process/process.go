package process

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Deadline ends a test that waits for what does not come. It is far above what anything here takes
// on a machine that has much else to do.
const Deadline = 5 * time.Minute

// dumpMax is how long a process may take to write its stacks: one that is stopped (SIGSTOP) never
// does.
const dumpMax = 10 * time.Second

// binary is the path of heartwood; Main sets it before any test runs.
var binary string

// Main is the body of a package's TestMain: it finds or builds the binary, runs the tests and
// returns the exit code.
func Main(m *testing.M) int {
	binary = os.Getenv("HEARTWOOD_BINARY")
	if binary == "" {
		dir, err := os.MkdirTemp("", "heartwood-test-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "heartwood")
		build := exec.Command("go", "build", "-o", binary, "../../cmd/heartwood")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			panic("build the binary: " + err.Error() + "\n" + string(out))
		}
	}
	return m.Run()
}

// Setup is what two processes of one cluster have in common.
type Setup struct {
	Manifests string // folder
	DataDir   string // folder; made by the process
	Listen    string // host:port of broker 0; broker i listens on port+i
	HTTP      string // host:port
	Brokers   int
}

// NewSetup picks ports and makes folders, and puts the documents into the folder of manifests.
func NewSetup(t *testing.T, brokers int, documents ...string) Setup {
	t.Helper()
	dir := t.TempDir()
	s := Setup{
		Manifests: filepath.Join(dir, "manifests"),
		DataDir:   filepath.Join(dir, "data"),
		Listen:    FreePorts(t, brokers),
		HTTP:      FreePorts(t, 1),
		Brokers:   brokers,
	}
	if err := os.Mkdir(s.Manifests, 0o755); err != nil {
		t.Fatal(err)
	}
	s.Apply(t, "cluster.yaml", strings.Join(documents, "---\n"))
	return s
}

// Apply writes a manifest the way editors and kubectl-like tools do: whole, by rename.
func (s Setup) Apply(t *testing.T, name, content string) {
	t.Helper()
	partial := filepath.Join(filepath.Dir(s.Manifests), name+".partial")
	if err := os.WriteFile(partial, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(partial, filepath.Join(s.Manifests, name)); err != nil {
		t.Fatal(err)
	}
}

// Args are the arguments of `heartwood dev`.
func (s Setup) Args() []string {
	return []string{
		"dev", "-f", s.Manifests, "--brokers", strconv.Itoa(s.Brokers),
		"--listen", s.Listen, "--http", s.HTTP, "--data-dir", s.DataDir,
	}
}

// Ports that tests may take: below those that the system gives to outgoing connections. From among
// the latter a client that knocks at the port of a killed process may be given that very port, and
// the process cannot come back.
const portFirst, portLast = 20000, 32000

// blockPorts is how many ports a test takes at once: the first of them it keeps.
const blockPorts = 8

// FreePorts finds n ports in a row on loopback and returns the address of the first. They are free
// when it returns; the command takes fixed ports, so nothing can hold them for it. But no other
// test is given them, of this package or of another that runs beside it: the port before them is
// listened at until the test ends, and who cannot have that goes elsewhere.
func FreePorts(t *testing.T, n int) string {
	t.Helper()
	if n >= blockPorts {
		t.Fatalf("%d ports: a block has %d", n, blockPorts-1)
	}
	for range 1000 {
		block := portFirst + blockPorts*rand.IntN((portLast-portFirst)/blockPorts)
		keeper, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(block))
		if err != nil {
			continue
		}
		if free(block+1, n) {
			t.Cleanup(func() { keeper.Close() })
			return "127.0.0.1:" + strconv.Itoa(block+1)
		}
		keeper.Close()
	}
	t.Fatalf("no %d free ports in a row", n)
	return ""
}

// free tells whether nobody listens at n ports.
func free(port, n int) bool {
	for i := range n {
		listener, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port+i))
		if err != nil {
			return false
		}
		listener.Close()
	}
	return true
}

// Process is a running heartwood.
type Process struct {
	cmd    *exec.Cmd
	Lines  chan string // of stdout; closed at its end
	Stderr *safeBuffer
	exited chan struct{} // closed once the exit code is known
}

// Start runs heartwood and kills it when the test ends, should it still run.
func Start(t *testing.T, args ...string) *Process {
	t.Helper()
	p := &Process{
		cmd: exec.Command(binary, args...), Lines: make(chan string, 1024), Stderr: &safeBuffer{},
		exited: make(chan struct{}),
	}
	p.cmd.Stderr = p.Stderr
	// A pipe of our own: cmd.StdoutPipe is closed by Wait, which may come before the last line is
	// read.
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout = writer
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	writer.Close()
	go func() {
		defer close(p.Lines)
		defer reader.Close()
		for scanner := bufio.NewScanner(reader); scanner.Scan(); {
			p.Lines <- scanner.Text()
		}
	}()
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // the exit code is in ProcessState
	}()
	t.Cleanup(func() {
		if t.Failed() { // what it does now may be why
			p.dump()
		}
		_ = p.cmd.Process.Kill()
		<-p.exited
		if t.Failed() {
			t.Logf("stderr of %v:\n%s", p.cmd.Args, p.Stderr.String())
		}
	})
	return p
}

// dump has a process that still runs write the stacks of its goroutines to stderr, and end.
func (p *Process) dump() {
	if p.cmd.Process.Signal(syscall.SIGQUIT) != nil {
		return // it has ended
	}
	select {
	case <-p.exited:
	case <-time.After(dumpMax):
	}
}

// Ready waits for the ready line and returns the bootstrap addresses and the lines before it.
func (p *Process) Ready(t *testing.T) (bootstrap, before []string) {
	t.Helper()
	expired := time.After(Deadline)
	for {
		select {
		case line, ok := <-p.Lines:
			if !ok {
				<-p.exited
				t.Fatalf("ended with code %d before it was ready; stdout %q, stderr:\n%s", p.Code(),
					before, p.Stderr.String())
			}
			if !strings.HasPrefix(line, "ready") {
				before = append(before, line)
				continue
			}
			for _, field := range strings.Fields(line) {
				if list, found := strings.CutPrefix(field, "bootstrap="); found {
					return strings.Split(list, ","), before
				}
			}
			t.Fatalf("the ready line carries no bootstrap=: %q", line)
		case <-expired:
			t.Fatalf("not ready; stdout so far %q", before)
		}
	}
}

// Code is the exit code of a process that has ended.
func (p *Process) Code() int { return p.cmd.ProcessState.ExitCode() }

// Stop sends a signal and returns the exit code, -1 when the signal itself ended the process.
func (p *Process) Stop(t *testing.T, signal syscall.Signal) int {
	t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	return p.Wait(t)
}

// Wait waits for the end and returns the exit code.
func (p *Process) Wait(t *testing.T) int {
	t.Helper()
	select {
	case <-p.exited:
		return p.Code()
	case <-time.After(Deadline):
		t.Fatalf("%v does not end", p.cmd.Args)
		return -1
	}
}

// safeBuffer is written by os/exec and read by the test.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// Until asks again and again, until ask returns nothing; that is what it still waits for.
func Until(t *testing.T, ask func() string) {
	t.Helper()
	ctx := Limited(t)
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		missing := ask()
		if missing == "" {
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("waited in vain: %s", missing)
		}
	}
}

// Limited is the test's context with the Deadline, for calls that would otherwise wait for ever.
func Limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Deadline)
	t.Cleanup(cancel)
	return ctx
}
